// Plays the steps of scenarios.txt with hub.js, in whatever has run prelude.js: `play(client, verb, arguments)`.

const players = new Map();

const collect = async (list, count) => {
  const found = [];
  for (let left = count; left > 0; left -= 1) found.push((await list.next()).value);
  return found;
};
const besides = ({ timeout_s: timeout, name, from_offset: fromOffset, expires_s: expiresS, ...rest } = {}) => ({
  ...rest,
  ...(timeout === undefined ? {} : { timeoutMs: timeout * 1000 }),
  ...(name === undefined ? {} : { service: name }),
  ...(fromOffset === undefined ? {} : { fromOffset }),
  ...(expiresS === undefined ? {} : { expiresS }),
});

let asked = 0;
const ANSWERS = {
  double: ({ value }) => (typeof value === "string" ? value + value : value * 2),
  later: async ({ topic, value }) => [await topic, value],
  fail: ({ value }) => { throw new Error(`no ${value}`); },
  never: () => {
    asked += 1;
    return new Promise(() => {});
  },
};

class Player {
  constructor(name) {
    this.client = start({ name });
    this.kept = new Map();
  }

  async subscribe(name, prefixes, options) {
    const stream = this.client.messages(prefixes, besides(options));
    await stream.confirmed;
    this.kept.set(name, stream);
  }
  subscribe_rule(name, rule) { return this.subscribe(name, rule); }
  subscribe_name(name, to) { return this.subscribe(name, { to }); }
  async unsubscribe(name) { await this.kept.get(name).return(); }
  async receive(name, count) {
    return (await collect(this.kept.get(name), count)).map(({ topic, value }) => [topic, value]);
  }
  async values(name, count) { return (await this.receive(name, count)).map(([, value]) => value); }
  async topics(name, count) { return (await this.receive(name, count)).map(([topic]) => topic); }
  async labelled(name, count) {
    const found = await collect(this.kept.get(name), count);
    return found.map(({ value, labels = [], sender = "", to = "" }) => [value, labels, sender, to]);
  }
  async recorded(name, count) {
    return (await collect(this.kept.get(name), count)).map(({ offset, value }) => [offset, value]);
  }

  async publish(topic, value, options) {
    if (topic.startsWith("$hub/")) return this.client.publish(topic, value, { confirm: true });
    this.client.publish(topic, value, options);
  }
  async publish_each(topic, values) { for (const value of values) this.client.publish(topic, value); }
  async publish_long(topic, size) { this.client.publish(topic, "x".repeat(size)); }
  publish_confirmed(topic, value, options) {
    return this.client.publish(topic, value, { ...options, confirm: "recorded" });
  }
  async publish_recorded(topic, count) {
    for (let value = 0; value < count; value += 1) await this.publish_confirmed(topic, value);
  }

  request(topic, value, options) { return this.client.request(topic, value, besides(options)); }
  async request_each(topic, count) {
    const asked = [...Array(count).keys()].map((number) => this.client.request(topic, number));
    const isRight = (answer, number) => (answer[1] ?? answer / 2) === number;
    return (await Promise.all(asked)).every(isRight);
  }
  async begin(topic, value) {
    this.begun = this.client.request(topic, value);
    this.begun.catch(() => {});
  }
  answer() { return this.begun; }
  async serve(name, prefixes, answer) {
    const service = this.client.serve(prefixes, ANSWERS[answer]);
    await service.confirmed;
    this.kept.set(name, service);
  }
  async unserve(name) { await this.kept.get(name).close(); }
  async wait_asked(_, number) { while (asked < number) await new Promise((resolve) => setTimeout(resolve, 1)); }
  async count(name, topic) {
    let seen = 0;
    await this.client.subscribe(topic, () => { seen += 1; }).confirmed;
    await this.client.serve(`/${name}`, () => seen).confirmed;
  }

  async claim(key, name, options) {
    const claimed = this.client.claim(name, options);
    this.kept.set(key, claimed);
    await claimed.confirmed;
  }
  async owned(key) { return this.kept.get(key).owned; }
  async wait_owned(key) { await this.kept.get(key).whenOwned(); }
  async release(key) { await this.kept.get(key).release(); }
  async names(prefix) { return (await this.client.names(prefix)).map(({ name, labels }) => [name, labels]); }

  async read(prefixes, options) {
    const found = [];
    for await (const { offset, topic, value = null } of this.client.read(prefixes, options)) {
      found.push([offset, topic, value]);
    }
    return found;
  }
  async consume(name, prefixes, options) {
    const messages = this.client.consume(name, prefixes, besides(options));
    this.kept.set(name, messages);
    if (prefixes.length === 0) this.last = (await messages.next()).value;
  }
  async take(name, then) {
    this.message = this.last ?? (await this.kept.get(name).next()).value;
    this.last = undefined;
    if (then === "ack") this.message.ack();
    if (then === "in_progress") this.message.inProgress();
    return [this.message.offset, this.message.value, this.message.deliveries];
  }
  async consumed(name, count) {
    const found = [];
    while (found.length < count) found.push((await this.take(name, "ack"))[1]);
    return found;
  }
  async give_back(name, delayS) { await this.message.nak({ delayS }); }
  async leave(name) { await this.kept.get(name).return(); }

  async put(key, value, { if_last: isLast, ...options } = {}) {
    const version = await this.client.store("s").put(key, value, { ...besides(options), ...(isLast ? { ifVersion: this.version } : {}) });
    this.version = version ?? this.version;
    return version !== null;
  }
  async store(call, ...given) { return this.#ask(this.client.store("s"), call, given); }
  async elsewhere(call, ...given) { return this.#ask(this.client.store("none"), call, given); }
  async #ask(store, call, given) {
    return store[call.replace("_u", "U")](...given);
  }
  async entries(prefix) {
    const found = [];
    for await (const { key, value } of this.client.store("s").entries(prefix)) found.push([key, value]);
    return found;
  }
  async watch(prefix) {
    this.watched = this.client.store("s").watch(prefix);
    await this.watched.confirmed;
  }
  async changes(count) {
    const found = await collect(this.watched, count);
    return found.map(({ kind, key, value, old, publisher, present }) => [kind, key, value, old, publisher, present]);
  }
  async copy() {
    this.replica = this.client.store("s").replica();
    await this.replica.confirmed;
  }
  async copied(key) { return [this.replica.get(key) ?? null, this.replica.size]; }
  async at_least(version = this.client.store("s").written, timeoutS = 20) {
    try {
      await this.replica.atLeast(version, { timeoutMs: timeoutS * 1000 });
    } catch (error) { throw error.code === 1013 ? "late" : error; }
  }

  async connections() { return this.client.statistics().connections; }
  async wait_lost() { await until(() => count("close") > 0); }
  async close() { await this.client.close(); }
}

const codeOf = (error) => {
  if (typeof error === "string") return error;
  if (error instanceof TypeError) return "usage";
  return error.code === 1000 ? "closed" : error.code;
};

globalThis.play = async (name, verb, given) => {
  if (!players.has(name)) players.set(name, new Player(name));
  try {
    return { is: (await players.get(name)[verb](...given)) ?? null };
  } catch (error) {
    return { fails: codeOf(error), text: error.message ?? "", trace: String(error.stack) };
  }
};
globalThis.begin = () => {
  players.clear();
  asked = 0;
};
