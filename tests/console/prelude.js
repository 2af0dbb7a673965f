// What the tests of hub.js use within Node or a page. `start` makes the client that is tested; `log` holds its events
// in order, `got` the messages that `collect` was called with; `until` waits for a condition on these.

const EVENTS = ["open", "close", "cut", "dropped", "error", "reconnecting"];
const waiting = new Set();

globalThis.log = [];
globalThis.got = [];

function look() {
  for (const wait of waiting) {
    if (!wait.condition()) continue;
    waiting.delete(wait);
    wait.resolve();
  }
}

globalThis.plain = (it) => (it instanceof Error ? { name: it.name, code: it.code ?? null, text: it.message } : it);

globalThis.until = (condition) => new Promise((resolve) => {
  waiting.add({ condition, resolve });
  look();
});

globalThis.count = (event) => log.filter(([name]) => name === event).length;

globalThis.collect = ({ topic, value }) => {
  got.push([topic, value]);
  look();
};

// A handler that keeps messages in a list; a condition on a list that is filled in another way is not looked at again.
globalThis.collectInto = (list) => (message) => {
  list.push(message);
  look();
};

const connected = [];
const plainConnect = globalThis.connect;

globalThis.connect = (...given) => {
  const client = plainConnect(...given);
  connected.push(client);
  return client;
};

// Closes all clients, for the next test.
globalThis.reset = async () => {
  await Promise.all(connected.splice(0).map((client) => client.close()));
  log.length = 0;
  got.length = 0;
  waiting.clear();
};

globalThis.start = (options = {}) => {
  globalThis.client = connect(globalThis.url, { ...options, backoff: { random: () => 0, ...options.backoff } });
  for (const event of EVENTS) {
    client.on(event, (...details) => {
      log.push([event, ...details.map(plain)]);
      look();
    });
  }
  return client;
};

// What a call throws or what its promise is rejected with.
globalThis.failure = async (call) => {
  try {
    await call();
  } catch (error) {
    return plain(error);
  }
  return null;
};
