/**
 * A file that is written piece by piece, so that the page need not hold its content; and lines of NDJSON.
 *
 * Where the browser lets one choose a file, pieces go there at once. Elsewhere the browser keeps them, `MOST_BYTES` at most,
 * until they are saved as a download.
 */

import { element } from "./element.js";

/**
 * @typedef {Uint8Array<ArrayBuffer>} Bytes
 * @typedef {{room: number, write: (bytes: Bytes) => Promise<void>, close: () => Promise<void>,
 *   abort: () => Promise<void>}} Sink
 *   `room`: How many bytes it takes.
 * @typedef {(options: object) => Promise<{createWritable: () => Promise<Omit<Sink, "room">>}>} Choose
 */

/** Largest file where the browser has to keep it, bytes. */
const MOST_BYTES = 256 * 1024 * 1024;

const TYPE = "application/x-ndjson";

/**
 * @param {string} name Of the file, as it is proposed.
 * @returns {Promise<Sink | null>} Null if the reader has chosen none.
 */
export async function fileSink(name) {
  const { showSaveFilePicker: choose } = /** @type {{showSaveFilePicker?: Choose}} */ (globalThis);
  if (choose === undefined) return keptByBrowser(name);
  let handle;
  try {
    handle = await choose.call(globalThis, { suggestedName: name, types: [{ accept: { [TYPE]: [".ndjson"] } }] });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return null;
    throw error;
  }
  const writable = await handle.createWritable();
  return { room: Infinity, write: (bytes) => writable.write(bytes), close: () => writable.close(), abort: () => writable.abort() };
}

/** @param {string} name @returns {Sink} */
function keptByBrowser(name) {
  /** @type {Blob[]} */
  let parts = [];
  return {
    room: MOST_BYTES,
    write: async (bytes) => {
      parts.push(new Blob([bytes]));
    },
    close: async () => {
      const link = URL.createObjectURL(new Blob(parts, { type: TYPE }));
      element("a", { href: link, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(link), 60_000); // the browser has begun to save it by then
      parts = [];
    },
    abort: async () => {
      parts = [];
    },
  };
}

// NDJSON: a message as a line, a JSON object with its value last, as it is exported; and whether that is what was published.

/**
 * @typedef {{topic: string, at: number, text: string, offset?: number, labels?: readonly string[],
 *   sender?: string | null, to?: string | null}} Line
 *   `at`: Milliseconds since 1970. `text`: Its value, as JSON.
 */

/** Return the line of a message. @param {Line} message */
export function lineOf({ topic, at, offset, labels, sender, to, text }) {
  const beside = { topic, time: new Date(at).toISOString(), offset, labels: labels?.length ? labels : undefined, sender: sender || undefined, to: to || undefined };
  return `${JSON.stringify(beside).slice(0, -1)},"value":${text}}\n`;
}

/** Only a text like this one has a number that is not held exactly; so that few values are walked over. */
const LONG_NUMBER = /\d{16}|e\+/;

/**
 * Whether a value has whole numbers beyond 2^53, of which JavaScript keeps the nearest that it has.
 * @param {any} value
 * @param {string} text The value, as JSON.
 */
export function isRounded(value, text) {
  return LONG_NUMBER.test(text) && hasUnsafe(value);
}

/** @param {any} value @returns {boolean} */
function hasUnsafe(value) {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnsafe);
}
