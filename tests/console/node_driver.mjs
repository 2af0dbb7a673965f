// Runs JavaScript for a test: a line of JSON {body, names, values} comes in, a line {result} or {error} goes out.
import { createInterface } from "node:readline";

// What a test has left waiting as its client is closed tells nobody.
process.on("unhandledRejection", (error) => {
  if (error?.code !== 1000) throw error;
});

const AsyncFunction = (async () => {}).constructor;

for await (const line of createInterface({ input: process.stdin })) {
  const { body, names, values } = JSON.parse(line);
  try {
    const result = await new AsyncFunction(...names, body)(...values);
    console.log(JSON.stringify({ result: result ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error?.stack ?? error) }));
  }
}
