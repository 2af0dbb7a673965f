/**
 * Talk to a topichub from a browser or from Node, over the WebSocket protocol `hub.v1.json`.
 *
 *     import { connect } from "http://127.0.0.1:7401/hub.js";
 *     const client = connect("ws://127.0.0.1:7401/v1/hub", { name: "my-page" });
 *     client.subscribe("/zeek/", ({ topic, value }) => console.log(topic, value));
 *     client.publish("/demo/hello", { from: "a browser" });
 *
 *     client.serve("/sum", ({ value }) => value.reduce((one, other) => one + other));
 *     console.log(await client.request("/sum", [1, 2, 3]));
 *     const name = client.claim("org.example.Player", { labels: ["video"] });
 *     for await (const message of client.consume("billing", "/app/")) message.ack();
 *     const store = client.store("status");
 *     await store.put("sensor-7", { state: "up" }, { expiresS: 60 });
 *     for await (const { key, value } of store.watch("sensor-")) console.log(key, value);
 *
 *     connect("wss://hub.example.org/", { token: async () => (await fetch("/my/token")).text() });
 *
 *     client.subscribe({ labels: ["door", "urgent"] }, ({ topic, value, labels }) => console.log(topic, value, labels));
 *     client.publish("/house/door", "open", { labels: ["urgent", "door", "north"] });
 *
 * Owner of state: the `Client`. It owns one `Filter` (what is subscribed), one `Outbox` (what waits to be sent), one
 * `Requests` (what is asked), one `Services` (what is answered) and at most one socket: a new one is made only after the
 * last was let go, and events of a socket let go are ignored.
 *
 * Invariants: what is published leaves in the order of the calls, over all topics. A prefix is sent to the hub once
 * however many subscriptions share it. After `close()` nothing is sent, called or opened again.
 *
 * Delivery: at most once. What is published without a connection waits, bounded, for the next one; what was given to a
 * socket that then breaks may be lost, and is never sent twice: `{confirm: true}` tells which.
 *
 * Cost: one JSON text a batch, one map lookup a batch to find its subscriptions, one call a message.
 *
 * Not here: the binary form `hub.v1.msgpack`, but for the keys and values of stores: JSON would lose their types, so they
 * travel as base64 of msgpack. One file on purpose: one address to load, one file to copy.
 */

const SUBPROTOCOL = "hub.v1.json";

/** `readyState` of a socket that sends; the name is not on every implementation of WebSocket. */
const OPEN = 1;

/** Text of one publish message before it is cut, characters: large enough to amortise, small enough to share a line. */
const BATCH_CHARACTERS = 65_536;

/** Prefixes of one subscribe message; with prefixes of 1 KiB far below the 16 MiB that a hub takes. */
const SUBSCRIBE_PREFIXES = 1_000;

/** Topics whose subscriptions are remembered; the cache starts anew when it is full. */
const CACHED_TOPICS = 10_000;

/** What a frame or a waiting caller takes beside its text, bytes, roughly. */
const OBJECT_BYTES = 128;

/** Topics and prefixes, bytes of UTF-8, as in the protocol. */
const TOPIC_BYTES = 1_024;

/** A connection that lived this long was a good one: the backoff starts from its base again, milliseconds. */
const SETTLED_MS = 5_000;

/** A stream that follows a journal for ever waits so long for more before it asks again, and after each piece. */
const FOLLOW_WAIT_MS = 30_000;
const FOLLOW_PAUSE_MS = 50;

/** And so long before it asks again where that hub cannot be reached. */
const FOLLOW_AGAIN_MS = 500;

/** A time behind all records, milliseconds since 1970: who begins there begins with what comes. */
const END_OF_TIME_MS = Number.MAX_SAFE_INTEGER;

/** So near the end of the journal history goes over into live messages: records. */
const NEAR_RECORDS = 1_000;

/** What may come live while the last of history is read, messages; over it the seam is tried again. */
const ASIDE_MESSAGES = 100_000;

/** Default of how long an answer to a request may take, milliseconds; as a hub's. */
const REQUEST_MS = 30_000;

/** Most messages of a consumer that are here and not acknowledged. */
const PREFETCH = 256;

/** How long the hub waits for messages of a consumer before it is asked again; and where it was asked too much at once. */
const CONSUME_WAIT_MS = 20_000;
const CONSUME_AGAIN_MS = 10;
/** How long it waits where the hub that records is away from the one that is connected. */
const CONSUME_AWAY_MS = 500;

/** Requests, or replies, that travel together. */
const REQUESTS = 4_096;

/** Numbers of requests are counted modulo this. */
const TRANSACTIONS = 2 ** 32;

/** A request's status is added to this for its error's code. */
const REQUEST_CODES = 4_100;

/** The statuses that are spoken of here; all are in docs/requests.md. */
const FAILED = 1;
const NO_RESPONDER = 2;
const RESPONDER_GONE = 3;
const TIMED_OUT = 4;
const OVERFLOW = 5;
const NOT_ALLOWED = 6;

/** Those that may be over by the next time. */
const PASSING = Object.freeze([NO_RESPONDER, RESPONDER_GONE, TIMED_OUT, OVERFLOW]);

/** Names in one answer of a hub: fewer say that there are no more. */
const NAMES_PAGE = 1_000;

/** Codes of a hub that may say when to come back: it stops, or is full. */
const NOT_NOW = [1001, 1013];

/** Nobody waits longer than this because a hub has asked for it, milliseconds. */
const RETRY_MS = 3_600_000;

/** How long `close()` waits for the hub's answer, milliseconds. */
const CLOSE_MS = 2_000;

/** The hub does not know who this is, or what was shown has ended; who this is, is known, and is not let in. */
const NOT_RECOGNISED = 4401;
const FORBIDDEN = 4403;

/** A token is renewed after this part of its time, and up to so much more: a thousand clients do not come together. */
const RENEWED_AFTER = 0.75;
const RENEWED_WITHIN = 0.1;

/** With less left than this nothing is tried again: the next connection brings a fresh token. Milliseconds. */
const LEAST_RENEWAL_MS = 1_000;

/** The longest time that a timer can be set to, milliseconds. */
const TIMER_MS = 2 ** 31 - 1;

/** How deep a value of a store may be nested, and the numbers that its types know. */
const NESTED = 500;
const U64_MAX = 2n ** 64n - 1n;
const MS_NS = 1_000_000n;
const SECOND_NS = 1_000_000_000n;

/** Reads text, and refuses what is not UTF-8. */
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The protocols of ports, by their numbers. */
const PROTOCOLS = Object.freeze(["?", "tcp", "udp", "icmp"]);

/** Kinds of changes of a store, by their numbers. */
const PUT = 0;
const ERASED = 1;
const CLEARED = 3;
const CHANGE_KINDS = Object.freeze(["put", "erase", "expire", "clear"]);

/** What a copy of a store misses. */
const NOTHING = "nothing";
const CHANGES = "changes";
const SNAPSHOT = "snapshot";

/** Most changes that wait for one before them, and that a watch holds before the store is not read on. */
const HELD_CHANGES = 65_536;

/** How often a copy asks how far the store is, and how long it waits after a failure: twice as long after each. */
const CHECK_MS = 1_000;
const COPY_RETRY_MS = 200;
const COPY_RETRY_MAX_MS = 5_000;

/** So many refusals in a row, and a copy ends with the last one. */
const REFUSALS = 5;

const DEFAULTS = Object.freeze({
  name: undefined,
  queue: undefined,
  token: undefined,
  narrow: undefined,
  outboundBytes: 16 * 1024 * 1024, // the largest message that a hub takes must fit
  silenceMs: 20_000, // the hub's own figures
  answerMs: 10_000,
  backoff: Object.freeze({ baseMs: 100, capMs: 30_000, random: Math.random }),
});

const STREAM_DEFAULTS = Object.freeze({ bufferMessages: 8_192, bufferBytes: 64 * 1024 * 1024 });

/** Something that the hub or this client refused. `code` is a WebSocket close code, the text names the cause.
 *  With 4011, which is for what the journal does not hold, `first` is the oldest offset that it does. */
export class HubError extends Error {
  constructor(code, text, first) {
    super(text);
    this.name = "HubError";
    this.code = code;
    if (first !== undefined) this.first = first;
  }
}

/** A request was answered, and not with a value: `status` says what has become of it, see docs/requests.md. */
export class RequestError extends HubError {
  constructor(status, text) {
    super(REQUEST_CODES + status, text);
    this.name = "RequestError";
    this.status = status;
  }
}

// --- typed values: what stores hold and JSON has no words for ---------------------------------------------------------

/** A real that is whole, as 1.0: for a store another value than the integer 1. It calculates as the number it is. */
export class Real extends Number {}

/** A whole number from 0 to 2^64 - 1; `value` is a number, or a BigInt where that is not exact. */
export class Count {
  constructor(value) {
    const whole = BigInt(value);
    if (whole < 0n || whole > U64_MAX) throw new RangeError(`a count is 0 to 2^64 - 1, not ${value}`);
    this.value = numberOf(whole);
    Object.freeze(this);
  }

  valueOf() {
    return this.value;
  }

  toString() {
    return String(this.value);
  }

  toJSON() {
    return typeof this.value === "bigint" ? String(this.value) : this.value;
  }
}

/** What is its text: the four below. Equal ones have equal texts. */
class Text {
  constructor(text) {
    this.text = text;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return this.text;
  }
}

/** An address of IPv4 or IPv6: `new Address("2001:db8::1")`. */
export class Address extends Text {
  constructor(text) {
    super(addressText(addressBytes(String(text))));
  }
}

/** A subnet: `new Subnet("10.0.0.0/8")`. What stands behind the prefix is set to 0. */
export class Subnet extends Text {
  constructor(text) {
    const bytes = subnetBytes(String(text));
    super(`${addressText(bytes.subarray(0, -1))}/${bytes.at(-1)}`);
  }
}

/** A port, 0 to 65535, of "tcp", "udp", "icmp", or "?". */
export class Port extends Text {
  constructor(number, protocol = "?") {
    if (!(Number.isInteger(number) && number >= 0 && number < 65_536)) throw new RangeError(`no port: ${number}`);
    if (!PROTOCOLS.includes(protocol)) throw new RangeError(`no protocol of a port: ${protocol}`);
    super(`${number}/${protocol}`);
  }

  get number() {
    return Number.parseInt(this.text, 10);
  }

  get protocol() {
    return this.text.slice(this.text.indexOf("/") + 1);
  }
}

/** The name of an enum value, as `Notice::LOG`. */
export class Enum extends Text {
  constructor(name) {
    super(checkedString(name));
  }
}

/** A number of nanoseconds, a BigInt: the two below. */
class Nanoseconds {
  constructor(ns) {
    this.ns = BigInt(ns);
    if (BigInt.asIntN(64, this.ns) !== this.ns) throw new RangeError(`${ns} ns are beyond 64 bits`);
    Object.freeze(this);
  }

  valueOf() {
    return this.ns;
  }
}

/** A moment, nanoseconds since 1970. */
export class Timestamp extends Nanoseconds {
  static of(date) {
    return new Timestamp(BigInt(date.getTime()) * MS_NS);
  }

  /** To the millisecond. */
  toDate() {
    return new Date(Number(floored(this.ns, MS_NS)));
  }

  toString() {
    const fraction = String(this.ns - floored(this.ns, SECOND_NS) * SECOND_NS).padStart(9, "0").replace(/0+$/, "");
    return this.toDate().toISOString().replace(/\.\d+Z$/, fraction ? `.${fraction}Z` : "Z");
  }

  toJSON() {
    return this.toString();
  }
}

/** A stretch of time, nanoseconds. */
export class Timespan extends Nanoseconds {
  static ofMs(ms) {
    return new Timespan(Math.round(ms * 1e6));
  }

  get ms() {
    return Number(this.ns) / 1e6;
  }

  toString() {
    return `${this.ns}ns`;
  }

  /** Seconds. */
  toJSON() {
    return Number(this.ns) / 1e9;
  }
}

/** Zeek's table: a `Map`. A `Map` that is none is a map of msgpack, and so is a plain object. */
export class Table extends Map {}

/** A time that is finer than a `Date`, which it is otherwise; `ns` counts from 1970, a BigInt. */
export class PreciseDate extends Date {
  constructor(ns) {
    super(Number(floored(ns, MS_NS)));
    this.ns = ns;
  }
}

/** An extension of msgpack that is none of the above; 10 is a string that is not UTF-8. */
export class Extension {
  constructor(code, bytes) {
    this.code = code;
    this.bytes = bytes;
    Object.freeze(this);
  }
}

/** Return a value without types, as messages have it: numbers, texts, arrays and objects, such as JSON has. */
export function untyped(value) {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Real) return Number(value);
  if (value instanceof Uint8Array) return base64Of(value);
  if (value instanceof Extension) return base64Of(value.bytes);
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, untyped);
  if (typeof value.toJSON === "function") return value.toJSON();
  const pairs = value instanceof Map ? value : Object.entries(value);
  return Object.fromEntries(Array.from(pairs, ([key, inner]) => [String(untyped(key)), untyped(inner)]));
}

/**
 * Connect to a hub, now and whenever the connection is lost, until `close()`.
 *
 * @param {string} [url] `ws:`, `wss:`, `http:` or `https:`; relative to the hub that served this module; a bare host
 *     gets the path `/v1/hub`.
 * @param {object} [options] See `Options` in hub.d.ts.
 * @throws {TypeError} The URL is none, or there is no WebSocket here and none was given.
 */
export function connect(url = "/", options = {}) {
  return new Client(endpoint(url), options);
}

class Client {
  #url;
  #options;
  #WebSocket;
  #state = "connecting"; // connecting, open, waiting, closed
  #socket = null;
  #welcome = null;
  #helloPending = false;
  #openedAt = 0;
  #attempts = 0;
  #retryTimer;
  #watchTimer;
  #renewTimer;
  #dialled = 0; // how often a connection was begun: what an earlier attempt was given comes too late
  #token; // for the `hello` of this connection; forgotten with it
  #until; // of the answer that is being looked at: how many seconds a fresh token holds
  #spentToken = false; // the hub did not know the last token, and has not taken another since
  #ended = null; // why the client is closed
  #receivedAt = 0;
  #pingedAt = 0; // 0: no answer is due
  #spared = false;
  #listeners = new Map();
  #filter = new Filter();
  #outbox;
  #asked;
  #services;
  #names = new Map(); // name → ClaimedName
  #flushScheduled = false;
  #lastRequest = 0;
  #requests = new Map(); // request → settle(error or null, lost, offset)
  #fetches = new Map(); // request → {order, answer}: asked again over the next connection
  #began; // offset of the journal at which the subscription that was confirmed last begins
  #lines = new Set(); // clients of subscriptions that begin in the journal
  #ready = handled(deferred());
  #closed = deferred();
  #wake = () => this.#woken();
  #counters = {
    connections: 0, receivedMessages: 0, receivedBatches: 0, droppedMessages: 0, skippedMessages: 0,
    publishedMessages: 0, publishedBatches: 0, discardedMessages: 0, errors: 0,
  };

  constructor(url, options) {
    this.#url = url;
    this.#options = { ...DEFAULTS, ...options, backoff: { ...DEFAULTS.backoff, ...options.backoff } };
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no WebSocket here: pass one as the option WebSocket");
    this.#outbox = new Outbox(this.#options.outboundBytes);
    this.#asked = new Requests(this.#options);
    this.#services = new Services(() => this.#scheduleFlush(), (error) => this.#report(error));
    globalThis.addEventListener?.("online", this.#wake);
    globalThis.document?.addEventListener("visibilitychange", this.#wake);
    this.#open();
  }

  /** Wait until the hub has greeted us (and granted the queue asked for). Rejects once the client is closed. */
  ready() {
    return this.#ready.promise;
  }

  /** Call `listener` at each `open`, `close`, `dropped`, `error` or `reconnecting`; returns what ends that. */
  on(event, listener) {
    if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
    this.#listeners.get(event).add(listener);
    return () => this.#listeners.get(event).delete(listener);
  }

  /**
   * Call `callback({topic, value})` for each message whose topic starts with one of the prefixes, once a message.
   *
   * In place of prefixes there may be a rule, `{labels, prefix, sender}`: messages that bear all its labels, begin with its
   * prefix, and bear that name of their sender; or `{to: name}`: what is sent to the owner of a name that this client
   * has claimed. Messages with labels or names have them beside topic and value: `labels`, `sender`, `to`.
   *
   * Survives reconnects. When the hub refuses a prefix the subscription ends: `confirmed` rejects and `error` is told.
   *
   * With `fromOffset` or `fromTime` (a Date) it begins with what the hub's journal has from there on, and goes over into
   * live without a gap and without a duplicate; then it has a connection of its own, and `confirmed` tells that it is live.
   * With `hub` as well, the name or the id of another hub, it follows the journal of that one: what is recorded there.
   *
   * With `recorded: true` it gives what is recorded alone, each message with its `offset` and `time`, as it is committed:
   * about 0.1 s later than live, and without losses. It begins with what comes if no other place is given.
   */
  subscribe(prefixes, callback, from = {}) {
    if (typeof callback !== "function") throw new TypeError("the callback is no function");
    const call = (message) => callback(message);
    if (isLive(from)) return this.#subscribe(prefixes, call, () => {});
    return this.#follow(prefixes, from, call, () => {}, () => undefined);
  }

  /**
   * Iterate over the messages under the prefixes: `for await (const message of client.messages("/zeek/"))`.
   *
   * What is not taken in time waits in a buffer bounded in messages and bytes; when it is full the oldest go, counted
   * in `dropped` of the iterator and in `statistics().skippedMessages`. Leaving the loop unsubscribes.
   */
  messages(prefixes, options = {}) {
    const stream = new MessageStream({ ...STREAM_DEFAULTS, ...options }, (count) => {
      this.#counters.skippedMessages += count;
    });
    const push = (message, size) => stream.push(message, size);
    const end = (error) => stream.end(error);
    stream.subscription = isLive(options)
      ? this.#subscribe(prefixes, push, end)
      : this.#follow(prefixes, options, push, end, () => stream.room());
    return stream;
  }

  /**
   * Iterate over what the hub's journal holds: `for await (const {offset, time, topic, value} of client.read("/zeek/"))`.
   *
   * From `start` (an offset) or `startTime` (a Date) to `end` (exclusive), or to what was recorded when reading began. It
   * asks for a piece when the one before is read, also over another connection. With `hub`, the name or the id of another
   * hub, it reads the journal of that one. With `columns`, some of "offset", "time", "topic" and "value", the hub sends
   * nothing else, and nothing else is in the records.
   *
   * @throws {HubError} 4011: `start` was deleted, or is not there yet; `first` is the oldest offset that is. 1008: no journal.
   *     1007: no such hub, or several; 1013: it cannot be reached now.
   */
  async *read(prefixes = "", { start = 0, startTime, end, hub, columns } = {}) {
    const order = { prefixes: checkedPrefixes(prefixes), ...place(start, startTime), ...whose(hub), columns };
    let last = end;
    for (;;) {
      const found = await this.#fetch(last === undefined ? order : { ...order, end: last });
      last ??= found.head;
      for (const record of found.records) yield recordOf(record);
      if (found.next >= last) return;
      goOn(order, found);
    }
  }

  /**
   * Consume recorded messages, each at least once: `for await (const message of client.consume("billing", "/app/"))`.
   *
   * The hub keeps the consumer under its name: whoever consumes under it later goes on where this has ended, and those
   * who do so at the same time share the messages. A message is `{offset, time, topic, value, deliveries, ack}`; what is
   * not acknowledged (`message.ack()`) is delivered again. Leaving the loop leaves the consumer. Over another connection it
   * goes on by itself. The options are the terms of docs/consumers.md; a value with no JSON form is passed over and
   * acknowledged.
   *
   * @throws {RequestError} The hub refuses: another consumer has this name, this one was removed; or records nothing.
   * @throws {HubError} 1000: closed.
   */
  async *consume(name, prefixes = [], options = {}) {
    const { fromOffset = null, fromTime, key, redeliverS, deliveries, deadLetters, prefetch = PREFETCH } = options;
    const wished = Object.entries({ key, redeliver_s: redeliverS, deliveries, dead_letters: deadLetters });
    const list = typeof prefixes === "string" ? [prefixes] : [...prefixes];
    const said = Object.fromEntries(wished.filter(([, value]) => value !== undefined));
    const first = list.length ? { prefixes: list, ...said } : null;
    const begin = fromTime === undefined ? { start: fromOffset } : { time_us: 1000 * Number(fromTime) };
    const membership = new Membership((what, value) => this.#askConsumers(what, value));
    let joined = false;
    try {
      // Later it must be there: one that was removed, or lost with the hub's disk, is not to begin anew unseen.
      for (let terms = first; ; terms = null) {
        try {
          await membership.join({ name, terms, messages: prefetch, ...begin });
          joined = true;
          yield* membership.messages();
        } catch (error) {
          const isAway = joined && error.status === RESPONDER_GONE;
          if (this.#state === "closed" || !(isAway || error.code === 1006 || error.status === TIMED_OUT)) throw error;
          if (isAway) await pause(CONSUME_AWAY_MS);
        }
      }
    } finally {
      await membership.leave();
    }
  }

  /** Ask the hub itself about a consumer, again where it was asked too much at once. */
  async #askConsumers(what, value) {
    for (;;) {
      try {
        return await this.request(`$hub/consumers/${what}`, value, { timeoutMs: 2 * CONSUME_WAIT_MS });
      } catch (error) {
        if (error.status !== OVERFLOW) throw error;
        await pause(CONSUME_AGAIN_MS);
      }
    }
  }

  /**
   * Publish one value; values published to one topic in one turn leave as one batch.
   *
   * It may bear `labels` (at most 32), the name of its `sender` (which this client has claimed), and a name that it is sent
   * `to`: then its owner alone gets it.
   *
   * @returns {Promise<void>|Promise<number>|undefined} With `confirm`, a promise that the hub has taken it; await it now
   *     and then to publish no faster than the hub takes. With `confirm: "recorded"`, a promise of its offset in the journal.
   * @throws {HubError} 1013: the outbound buffer is full. 1009: larger than the hub takes. 1000: closed. (Or rejects.)
   * @throws {TypeError} The topic is none, or the value has no JSON form. (Or rejects.)
   */
  publish(topic, value, { confirm = false, labels, sender, to } = {}) {
    const waiter = confirm ? deferred() : null;
    try {
      this.#assertNotClosed();
      const text = jsonOf(value);
      this.#assertFits(checkedTopic(topic), text);
      const beside = textBeside(labels, sender, to);
      this.#outbox.add({ topic, beside }, text, waiter, confirm === "recorded", this.#socket?.bufferedAmount ?? 0);
    } catch (error) {
      if (!confirm) throw error;
      return Promise.reject(error);
    }
    this.#counters.publishedMessages += 1;
    this.#scheduleFlush();
    return waiter?.promise;
  }

  /**
   * Ask whoever serves the topic, and wait for the reply; requests of one turn to one topic travel together.
   *
   * What is asked without a connection waits for the next one, as long as its time allows. What was sent when the
   * connection is lost is not repeated.
   *
   * @param {string} topic Goes to the service with the longest prefix of it; with `service`, to whoever bears that name.
   * @throws {RequestError} There is no reply; its `status` says why. (All of these: rejects.)
   * @throws {HubError} 1006: the connection was lost, nobody knows. 1013: the outbound buffer is full. 1000: closed.
   * @throws {TypeError} The topic is none, or the value has no JSON form.
   */
  async request(topic, value, { timeoutMs = REQUEST_MS, service = false } = {}) {
    this.#assertNotClosed();
    const text = jsonOf(value);
    this.#assertFits(checkedTopic(topic), text);
    const answer = this.#asked.add({ topic, timeoutMs, service }, text, this.#socket?.bufferedAmount ?? 0);
    this.#scheduleFlush();
    return answer;
  }

  /**
   * Answer requests whose topic starts with one of the prefixes: what `answer({topic, value})` returns (or promises) is
   * the reply, the text of what it throws is told to whoever asked, and to `error`.
   *
   * Survives reconnects. Several services under one prefix, over several connections, share the load.
   *
   * @returns {Service} `confirmed` is a promise that the hub has taken it; `close()` ends it.
   */
  serve(prefixes, answer) {
    if (typeof answer !== "function") throw new TypeError("what answers is no function");
    this.#assertNotClosed();
    const service = new Service(checkedPrefixes(prefixes), answer, (it) => this.#unserve(it));
    this.#services.add(service);
    if (this.#state === "open") this.#sendServe(service);
    return service;
  }

  /**
   * Claim a service name: two elements or more, such as `org.example.Player`. Requests with `service` reach its owner.
   *
   * Survives reconnects: it is claimed again. When somebody else owns it by then, or a peer hub's claim was earlier, it is
   * lost, which `error` tells, unless it waits.
   *
   * @param {object} [options] `labels` are announced with it; with `queue` it waits where somebody else owns it.
   * @returns {ClaimedName} `confirmed` is a promise that it is owned, or waits; it rejects where the hub refuses.
   * @throws {TypeError} The name is none, or this client has claimed it already.
   */
  claim(name, { labels = [], queue = false } = {}) {
    this.#assertNotClosed();
    if (!/^(?=.{1,255}$)[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+$/.test(name)) throw new TypeError(`no service name: ${name}`);
    if (this.#names.has(name)) throw new TypeError(`this client has claimed ${name} already`);
    const claimed = new ClaimedName(name, labels.map((label) => checkedText(label, "label")), queue,
      (it) => this.#releaseName(it));
    this.#names.set(name, claimed);
    if (this.#state === "open") this.#sendClaim(claimed);
    return claimed;
  }

  /** List the service names that begin with a prefix, as `{name, labels, owner, hub}`. Rejects as `request` does. */
  async names(prefix = "") {
    const found = [];
    for (;;) {
      const page = await this.request("$hub/names", { prefix, after: found.at(-1)?.name ?? "" });
      found.push(...page);
      if (page.length < NAMES_PAGE) return found;
    }
  }

  /**
   * A store, wherever in the mesh it is: `await client.store("status").put("sensor-7", "up")`. See docs/stores.md.
   *
   * The words are those of the Python client. Values keep their types: what JavaScript has no type for is a `Count`, an
   * `Address`, a `Real` and so on, both ways; `untyped(value)` makes plain ones of them.
   *
   * @throws {TypeError} That is no name of a store.
   */
  store(name, { timeoutMs = REQUEST_MS } = {}) {
    return new Store(name, {
      request: (topic, value) => this.request(topic, value, { timeoutMs }),
      publish: (topic, value) => this.publish(topic, value),
      subscribe: (prefix, callback, ended) => this.#subscribe(prefix, callback, ended),
      on: (event, listener) => this.on(event, listener),
    });
  }

  /** Counters and gauges as they are now, frozen. `droppedMessages` were lost in the hub, `skippedMessages` here. */
  statistics() {
    return Object.freeze({
      state: this.#state, hub: this.#welcome?.hub ?? null, ...this.#counters,
      prefixes: this.#filter.entries.size, unconfirmed: this.#requests.size, pendingRequests: this.#asked.pending,
      outboundBytes: this.#outbox.size + this.#asked.size + (this.#socket?.bufferedAmount ?? 0),
    });
  }

  /** Send what is ready to be sent, then close, for good. Waits for the hub's answer, at most 2 s. */
  close() {
    if (this.#state === "closed") return this.#closed.promise;
    this.#flush();
    this.#cease(new HubError(1000, "this client is closed"));
    this.#closeSocket();
    return this.#closed.promise;
  }

  /** Do nothing any more, and tell all who wait why. */
  #cease(error) {
    this.#state = "closed";
    this.#ended = error;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#watchTimer);
    clearTimeout(this.#renewTimer);
    globalThis.removeEventListener?.("online", this.#wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#wake);
    this.#counters.discardedMessages += this.#outbox.discard(error);
    this.#settleAll(error);
    this.#asked.failAll(error);
    this.#services.close(error);
    for (const claimed of this.#names.values()) claimed.end(error);
    this.#names.clear();
    this.#ready.reject(error);
    this.#ready = handled({ promise: Promise.reject(error) });
    for (const subscription of this.#filter.clear()) subscription.ended(error);
    for (const { answer } of this.#fetches.values()) answer.reject(error);
    this.#fetches.clear();
    for (const line of this.#lines) line.close();
  }

  // --- the connection: one socket at a time -------------------------------------------------------------------------

  /** Make a connection; first ask for a fresh token, where there is a function for that. */
  #open() {
    this.#state = "connecting";
    const { token } = this.#options;
    const number = this.#dialled += 1;
    if (typeof token !== "function") return this.#dial(token);
    this.#fresh().then((fresh) => {
      if (number === this.#dialled && this.#state === "connecting") this.#dial(fresh);
    }, (error) => {
      if (number !== this.#dialled || this.#state !== "connecting") return;
      this.#state = "waiting";
      this.#report(error);
      this.#retry();
    });
    return undefined;
  }

  /** What the program's function gives. Its own error may hold what it likes, and is the cause alone. */
  async #fresh() {
    const { token, answerMs } = this.#options;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing within ${answerMs} ms`)), answerMs);
    });
    try {
      const given = await Promise.race([(async () => token())(), late]);
      if (typeof given !== "string") throw new TypeError(`${typeof given}, no string`);
      return given;
    } catch (cause) {
      const error = new HubError(NOT_RECOGNISED, `the function for the token has failed: ${cause?.name ?? typeof cause}`);
      error.cause = cause;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #dial(token) {
    this.#token = token === "" ? undefined : token;
    const socket = new this.#WebSocket(this.#url, [SUBPROTOCOL]);
    this.#socket = socket;
    this.#spared = false;
    this.#pingedAt = this.#receivedAt = now(); // the attempt counts as a ping: no greeting in time, no connection
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => this.#lost(socket, event.code, event.reason);
    // Some implementations tell of a failed attempt by `error` alone; where `close` follows it comes first.
    socket.onerror = () => setTimeout(() => this.#abandon(socket, "connection failed"), 0);
    this.#watch(this.#options.answerMs);
  }

  #lost(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#release(socket);
    clearTimeout(this.#watchTimer);
    clearTimeout(this.#renewTimer);
    this.#token = undefined;
    if (this.#state === "closed") {
      this.#emit("close", code, reason);
      this.#closed.resolve();
      return;
    }
    if (this.#state === "open") {
      if (!this.#helloPending) this.#ready = handled(deferred());
      if (now() - this.#openedAt >= SETTLED_MS) this.#attempts = 0;
    }
    this.#welcome = null;
    this.#state = "waiting";
    this.#settleAll(new HubError(1006, "connection lost before the hub confirmed; it may have taken it"));
    this.#asked.fail(new HubError(1006, "connection lost before the answer; the service may have done what was asked"));
    this.#services.forget();
    for (const claimed of this.#names.values()) claimed.stand("asked", "the connection was lost");
    this.#emit("close", code, reason);
    if (this.#isFinal(code)) this.#giveUp(new HubError(code, reason));
    else this.#retry(retryAfterMs(code, reason));
  }

  /** Whether the hub would say the same again. With a function for tokens, 4401 is worth one more attempt. */
  #isFinal(code) {
    if (code !== NOT_RECOGNISED) return code === FORBIDDEN;
    const isSpent = this.#spentToken || typeof this.#options.token !== "function";
    this.#spentToken = true;
    return isSpent;
  }

  #giveUp(error) {
    if (this.#state === "closed") return; // a listener has closed the client
    this.#cease(error);
    this.#closed.resolve();
    this.#report(error);
  }

  // --- a fresh token in a connection that goes on -------------------------------------------------------------------

  #renewBefore(until) {
    if (until === undefined || typeof this.#options.token !== "function") return;
    const part = RENEWED_AFTER + RENEWED_WITHIN * this.#options.backoff.random();
    this.#renewIn(until * 1000 * part, now() + until * 1000);
  }

  #renewIn(delayMs, endsAt) {
    clearTimeout(this.#renewTimer);
    const stepMs = Math.min(delayMs, TIMER_MS);
    this.#renewTimer = setTimeout(() => {
      if (stepMs < delayMs) this.#renewIn(delayMs - stepMs, endsAt);
      else this.#renew(endsAt);
    }, stepMs);
  }

  #renew(endsAt) {
    const socket = this.#socket;
    const failed = (error) => {
      if (socket !== this.#socket || this.#state !== "open") return;
      this.#report(error);
      const waitMs = (endsAt - now()) / 2;
      if (waitMs >= LEAST_RENEWAL_MS) this.#renewIn(waitMs, endsAt);
    };
    this.#fresh().then((token) => {
      if (socket !== this.#socket || this.#state !== "open") return;
      const request = this.#nextRequest((error, lost) => {
        if (lost) return;
        if (error === null) this.#renewBefore(this.#until);
        else failed(error);
      });
      this.#send({ type: "token", token, request });
    }, failed);
  }

  #abandon(socket, reason) {
    if (socket !== this.#socket) return;
    this.#lost(socket, 1006, reason);
    socket.close();
  }

  #release(socket) {
    this.#socket = null;
    socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
  }

  /** Full jitter: anything between nothing and the doubling bound, so that a thousand clients do not return as one. */
  #retry(askedMs = null) {
    if (this.#state !== "waiting") return; // a listener closed the client
    const { baseMs, capMs, random } = this.#options.backoff;
    const delayMs = askedMs ?? random() * Math.min(capMs, baseMs * 2 ** this.#attempts);
    if (askedMs === null) this.#attempts += 1;
    this.#retryTimer = setTimeout(() => this.#open(), delayMs);
    this.#emit("reconnecting", delayMs);
  }

  /** The network or the reader is back: try soon when waiting, else ask the hub whether it is still there. */
  #woken() {
    if (globalThis.document?.visibilityState === "hidden") return;
    if (this.#state === "waiting") {
      clearTimeout(this.#retryTimer);
      this.#attempts = 0;
      this.#retry();
    } else if (this.#state === "open" && this.#pingedAt === 0) {
      this.#ping();
    }
  }

  #watch(leftMs) {
    clearTimeout(this.#watchTimer);
    const delayMs = Math.min(leftMs, this.#options.silenceMs); // an answer in between starts the next silence
    const dueAt = now() + delayMs;
    this.#watchTimer = setTimeout(() => this.#checkSilence(now() - dueAt), delayMs);
  }

  /** By timestamps, since timers of hidden pages come late. A late check does not judge: the answer may be queued. */
  #checkSilence(lateMs) {
    const { silenceMs, answerMs } = this.#options;
    if (this.#pingedAt === 0) {
      const leftMs = this.#receivedAt + silenceMs - now();
      if (leftMs <= 0) this.#ping();
      else this.#watch(leftMs);
    } else if (now() < this.#pingedAt + answerMs) {
      this.#watch(this.#pingedAt + answerMs - now());
    } else if (lateMs > answerMs && !this.#spared) {
      this.#spared = true;
      this.#watch(answerMs);
    } else {
      this.#abandon(this.#socket, `no answer from the hub for ${answerMs} ms`);
    }
  }

  #ping() {
    this.#pingedAt = now();
    this.#spared = false;
    this.#send({ type: "ping", request: this.#nextRequest() });
    this.#watch(this.#options.answerMs);
  }

  #closeSocket() {
    const socket = this.#socket;
    if (socket === null) {
      this.#emit("close", 1000, "");
      this.#closed.resolve();
      return;
    }
    socket.onmessage = null;
    socket.close(1000, "");
    setTimeout(() => this.#abandon(socket, "no answer to the close"), CLOSE_MS).unref?.();
  }

  // --- what the hub says --------------------------------------------------------------------------------------------

  #received(text) {
    this.#receivedAt = now();
    this.#pingedAt = 0;
    try {
      this.#understood(JSON.parse(text), text.length);
    } catch (error) {
      this.#report(new HubError(1007, `the hub sent something not understood: ${error.message}`));
    }
  }

  #understood(message, characters) {
    switch (message.type) {
      case "messages": return this.#deliver(message, characters);
      case "confirmed":
        this.#began = message.offset;
        this.#until = message.until;
        return this.#settle(message.request, null, message.text);
      case "recorded": return this.#settle(message.request, null, message.offset);
      case "records": return this.#fetched(message);
      case "dropped": return this.#dropped(message.count);
      case "reply": return this.#asked.answer(message);
      case "request": return this.#services.receive(message);
      case "name": return this.#nameStands(message);
      case "error": return this.#refused(message);
      case "welcome": return this.#welcomed(message);
      default: return checkedText(message.type, "type of a message"); // pong, and what later hubs may say
    }
  }

  #deliver({ topic, values, labels, sender, to }, characters) {
    const beside = labels || sender || to ? { labels: labels ?? [], sender: sender ?? "", to: to ?? "" } : null;
    this.#counters.receivedBatches += 1;
    this.#counters.receivedMessages += values.length;
    const size = Math.ceil(characters / values.length);
    for (const subscription of beside ? this.#filter.routeBeside(topic, beside) : this.#filter.route(topic)) {
      for (const value of values) {
        if (!subscription.active) break;
        try {
          subscription.callback(beside ? { topic, value, ...beside } : { topic, value }, size);
        } catch (error) {
          this.#report(error);
        }
      }
    }
  }

  #dropped(count) {
    this.#counters.droppedMessages += count;
    this.#emit("dropped", count);
  }

  #refused({ request, code, text, offset, about }) {
    const error = new HubError(code, text, offset);
    if (about === "request" && this.#asked.refuse(request, error)) return;
    if (this.#settle(request, error) || this.#unfetched(request, error)) return;
    this.#report(error);
    if (this.#helloPending) this.#granted(); // what was wished for is not to be had: go on with the defaults
  }

  #welcomed(message) {
    const first = this.#welcome === null;
    this.#welcome = message;
    if (!first) return this.#granted();
    const { name, queue, narrow } = this.#options;
    const token = this.#token;
    this.#token = undefined;
    this.#state = "open";
    this.#openedAt = now();
    this.#counters.connections += 1;
    this.#outbox.limitBatches(message.frame);
    // To a hub with users a client that has said nothing is a stranger, whose messages must be small.
    this.#helloPending = [name, queue, token, narrow, message.strangers].some((reason) => reason !== undefined);
    if (this.#helloPending) this.#send({ type: "hello", name, queue, token, narrow });
    this.#sendSubscribe([...this.#filter.entries.values()]);
    for (const service of this.#services.all) this.#sendServe(service);
    for (const claimed of this.#names.values()) this.#sendClaim(claimed);
    for (const [request, { order }] of this.#fetches) this.#send({ type: "fetch", request, ...order });
    this.#flush();
    return this.#helloPending ? undefined : this.#granted();
  }

  #granted() {
    this.#helloPending = false;
    this.#spentToken = false;
    this.#renewBefore(this.#welcome.until);
    this.#ready.resolve(this.#welcome);
    this.#emit("open", this.#welcome);
  }

  // --- what we say --------------------------------------------------------------------------------------------------

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #scheduleFlush() {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush() {
    this.#flushScheduled = false;
    this.#outbox.seal();
    if (this.#state !== "open" || this.#socket.readyState !== OPEN) return;
    for (const { text, waiters, recorded } of this.#outbox.take()) {
      this.#counters.publishedBatches += 1;
      if (waiters.length === 0) {
        this.#socket.send(`${text}}`);
        continue;
      }
      const request = this.#nextRequest((error, lost, offset) => waiters.forEach((waiter, number) => {
        waiter.settle(error, recorded ? offset + number : undefined);
      }));
      this.#socket.send(`${text}${recorded ? ',"confirm":true' : ""},"request":${request}}`);
    }
    for (const text of this.#asked.take()) this.#socket.send(text);
    for (const text of this.#services.take()) this.#socket.send(text);
  }

  // --- services -----------------------------------------------------------------------------------------------------

  #sendServe(service) {
    const request = this.#nextRequest((error, lost) => {
      if (lost) return;
      service.confirmedBy(error);
      if (error === null) return;
      this.#services.remove(service);
      this.#report(error);
    });
    this.#send({ type: "serve", prefixes: service.prefixes, request });
  }

  #unserve(service) {
    if (!this.#services.all.has(service) || this.#state !== "open") {
      this.#services.remove(service);
      return Promise.resolve();
    }
    this.#flush();
    const done = handled(deferred());
    const request = this.#nextRequest((error, lost) => {
      this.#services.remove(service); // until now the hub could have sent it requests
      done.settle(lost ? null : error);
    });
    this.#send({ type: "unserve", prefixes: service.prefixes, request });
    return done.promise;
  }

  // --- service names ------------------------------------------------------------------------------------------------

  #sendClaim(claimed) {
    const { name, labels, queue } = claimed;
    const request = this.#nextRequest((error, lost, text) => {
      if (lost || this.#names.get(name) !== claimed) return;
      if (error === null) claimed.stand(text === "queued" ? "queued" : "owned");
      else this.#loseName(claimed, error);
    });
    this.#send({ type: "claim", name, labels, queue, request });
  }

  #nameStands({ name, standing, text }) {
    const claimed = this.#names.get(name);
    if (claimed === undefined) return; // released meanwhile
    if (standing === "lost") this.#loseName(claimed, new HubError(1008, text));
    else claimed.stand(standing, text);
  }

  #loseName(claimed, error) {
    this.#names.delete(claimed.name);
    if (claimed.end(error)) this.#report(error); // else whoever claimed it is told by `confirmed`
  }

  #releaseName(claimed) {
    if (this.#names.get(claimed.name) !== claimed) return Promise.resolve();
    this.#names.delete(claimed.name);
    claimed.end(new HubError(1000, `the name ${claimed.name} was released`));
    if (this.#state !== "open") return Promise.resolve();
    const done = handled(deferred());
    const request = this.#nextRequest(() => done.settle(null)); // whatever is answered, it is no longer owned here
    this.#send({ type: "release", name: claimed.name, request });
    return done.promise;
  }

  // --- the journal --------------------------------------------------------------------------------------------------

  #fetch(order) {
    this.#assertNotClosed();
    const answer = deferred();
    const request = this.#nextRequest();
    this.#fetches.set(request, { order, answer });
    if (this.#state === "open") this.#send({ type: "fetch", request, ...order });
    return answer.promise;
  }

  #fetched(message) {
    this.#fetches.get(message.request)?.answer.resolve(message);
    this.#fetches.delete(message.request);
  }

  #unfetched(request, error) {
    this.#fetches.get(request)?.answer.reject(error);
    return this.#fetches.delete(request);
  }

  /** A subscription that begins in the journal. `room` gives a promise while its reader is behind. */
  #follow(prefixes, { fromOffset, fromTime, hub, recorded = false }, deliver, ended, room) {
    this.#assertNotClosed();
    const live = handled(deferred());
    const followed = new Subscription(wantedPrefixes(prefixes), deliver, ended, (it) => it.stop(null));
    followed.confirmedBy([live.promise]);
    let line = null;
    followed.stop = (error) => {
      if (!followed.active) return Promise.resolve();
      this.#lines.delete(line);
      followed.ended(error);
      return line?.close();
    };
    const dial = () => {
      this.#lines.delete(line);
      line?.close();
      line = new Client(this.#url, this.#options);
      line.on("error", (error) => this.#report(error));
      this.#lines.add(line);
      return line;
    };
    const from = recorded && fromOffset === undefined ? fromTime ?? END_OF_TIME_MS : fromTime;
    const order = { prefixes: [...followed.prefixes], ...place(fromOffset ?? 0, from), ...whose(hub) };
    const dropped = (count) => this.#dropped(count);
    const run = async () => {
      while (followed.active && !(await dial().#followOnce(order, followed, room, dropped, live, recorded)));
      live.resolve();
    };
    run().catch((error) => {
      if (!followed.active) return;
      followed.stop(error);
      this.#report(error);
    });
    return followed;
  }

  /**
   * Read history up to its end, then live, over this connection; false if the seam could not be crossed: try again.
   *
   * What is delivered live has no offset, and cannot be joined to the journal of another hub: who `stays`, or reads such
   * a one, reads on in the journal.
   */
  async #followOnce(order, followed, room, dropped, caughtUp, stays) {
    const take = async (more) => {
      const found = await this.#fetch({ ...order, ...more });
      for (const record of found.records) if (followed.active) followed.callback(recordOf(record), 0);
      goOn(order, found);
      await room();
      return found;
    };
    let found = await take();
    if (stays || order.hub !== undefined || found.journal !== this.#welcome?.journal) {
      return this.#readOn(found, followed, take, caughtUp);
    }
    while (followed.active && found.head - found.next >= NEAR_RECORDS) found = await take();
    let aside = [];
    let broken = false;
    const off = [this.on("dropped", () => { broken = true; }), this.on("close", () => { broken = true; })];
    let live = false;
    const subscription = this.#subscribe(followed.prefixes, (message, size) => {
      if (live) return followed.active && followed.callback(message, size);
      aside.push([message, size]);
      broken ||= aside.length > ASIDE_MESSAGES;
      return undefined;
    }, () => {});
    await subscription.confirmed;
    const seam = this.#began;
    if (seam === undefined) throw new HubError(4012, "the hub records nothing now, so that history has no end");
    while (followed.active && !broken && order.start < seam) await take({ end: seam });
    off.forEach((stop) => stop());
    if (broken) return false;
    live = true;
    this.on("dropped", dropped);
    for (const [message, size] of aside) if (followed.active) followed.callback(message, size);
    aside = [];
    return true;
  }

  /** Read a journal as it grows. */
  async #readOn(found, followed, take, caughtUp) {
    let { head, next } = found;
    while (followed.active) {
      const more = head <= next ? { wait_ms: FOLLOW_WAIT_MS } : {};
      if (head <= next) {
        caughtUp.resolve();
        await pause(FOLLOW_PAUSE_MS);
      }
      try {
        ({ head, next } = await take(more));
      } catch (error) {
        if (error.code !== 1013) throw error;
        await pause(FOLLOW_AGAIN_MS); // there may be a way again
      }
    }
    return true;
  }

  #subscribe(what, callback, ended) {
    this.#assertNotClosed();
    const subscription = new Subscription(wanted(what), callback, ended, (it) => this.#unsubscribe(it));
    const fresh = this.#filter.add(subscription);
    if (this.#state === "open" && fresh.length > 0) {
      this.#flush(); // what was published before the subscription is before it on the wire too
      this.#sendSubscribe(fresh);
    }
    return subscription;
  }

  #sendSubscribe(all) {
    for (const entries of [all.filter(({ rule }) => rule === null), all.filter(({ rule }) => rule !== null && !rule.to)]) {
      for (let start = 0; start < entries.length; start += SUBSCRIBE_PREFIXES) {
        const part = entries.slice(start, start + SUBSCRIBE_PREFIXES);
        const request = this.#nextRequest((error, lost) => {
          if (!lost) this.#subscribed(part, error);
        });
        this.#send({ ...change(part, "subscribe", "rule"), request });
      }
    }
  }

  /** A refused list is tried again one by one, so that only the prefixes at fault lose their subscriptions. */
  #subscribed(entries, error) {
    const current = entries.filter((entry) => this.#filter.entries.get(entry.prefix) === entry);
    if (error === null) {
      for (const entry of current) entry.confirmed.resolve();
    } else if (entries.length > 1) {
      for (const entry of current) this.#sendSubscribe([entry]);
    } else if (current.length > 0) {
      for (const subscription of [...current[0].subscriptions]) this.#end(subscription, error, entries);
    }
  }

  #end(subscription, error, refused) {
    const unused = this.#filter.remove(subscription).filter((entry) => !refused.includes(entry));
    subscription.ended(error);
    if (unused.length > 0) this.#sendUnsubscribe(unused);
    this.#report(error);
  }

  #unsubscribe(subscription) {
    const unused = this.#filter.remove(subscription);
    subscription.ended(null);
    if (unused.length === 0 || this.#state !== "open") return Promise.resolve();
    this.#flush();
    return this.#sendUnsubscribe(unused);
  }

  #sendUnsubscribe(entries) {
    const done = handled(deferred());
    const request = this.#nextRequest((error, lost) => done.settle(lost ? null : error));
    this.#send({ ...change(entries, "unsubscribe", "unrule"), request });
    return done.promise;
  }

  #nextRequest(settle) {
    this.#lastRequest += 1;
    if (settle) this.#requests.set(this.#lastRequest, settle);
    return this.#lastRequest;
  }

  #settle(request, error, offset) {
    const settle = this.#requests.get(request);
    if (settle === undefined) return false;
    this.#requests.delete(request);
    settle(error, false, offset);
    return true;
  }

  #settleAll(error) {
    const pending = [...this.#requests.values()];
    this.#requests.clear();
    for (const settle of pending) settle(error, true);
  }

  #assertNotClosed() {
    if (this.#state === "closed") throw this.#ended;
  }

  #assertFits(topic, text) {
    const limit = this.#welcome?.frame ?? Infinity;
    const roomBytes = limit - 3 * topic.length - 80; // beside topic and value stand the names of the fields
    if (3 * text.length <= roomBytes) return; // no character takes more than three bytes
    if (new TextEncoder().encode(text).length > roomBytes) {
      throw new HubError(1009, `the value is larger than this hub takes (${limit} bytes a message)`);
    }
  }

  #emit(event, ...details) {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        listener(...details);
      } catch (error) {
        reportUncaught(error);
      }
    }
  }

  #report(error) {
    this.#counters.errors += 1;
    if (this.#listeners.get("error")?.size > 0) this.#emit("error", error);
    else reportUncaught(error);
  }
}

/** What one caller of `subscribe` holds. */
class Subscription {
  #leave;
  #ended;
  #confirmed = handled(deferred());
  active = true;

  constructor({ keys, rule }, callback, ended, leave) {
    this.keys = keys;
    this.rule = rule;
    this.prefixes = Object.freeze(rule === null ? keys : []);
    this.callback = callback;
    this.#ended = ended;
    this.#leave = leave;
  }

  /** A promise that the hub has confirmed every prefix: it stays open while there is no connection. */
  get confirmed() {
    return this.#confirmed.promise;
  }

  /** Stop the calls at once; resolves when the hub has confirmed, or had nothing to do. */
  unsubscribe() {
    return this.active ? this.#leave(this) : Promise.resolve();
  }

  confirmedBy(confirmations) {
    Promise.all(confirmations).then(this.#confirmed.resolve);
  }

  ended(error) {
    this.active = false;
    this.#confirmed.reject(error ?? new HubError(1000, "unsubscribed before the hub confirmed"));
    this.#ended(error);
  }
}

/** What is asked and not answered, frame by frame: it waits to be sent, then for its answers. */
class Requests {
  size = 0;
  #options;
  #open = new Map(); // target and time → the batch of this turn
  #waiting = []; // batches to be sent: {target, texts, askers, timer, endsAt}
  #askers = new Map(); // number → {asker, batch}
  #next = 1;

  constructor(options) {
    this.#options = options;
  }

  get pending() {
    return this.#askers.size + this.#waiting.reduce((sum, batch) => sum + batch.texts.length, 0);
  }

  add(target, text, socketBytes) {
    const { topic, timeoutMs, service } = target;
    if (!(timeoutMs > 0 && timeoutMs <= 3_600_000)) throw new TypeError(`timeoutMs is ${timeoutMs}: 1 to 3,600,000`);
    if (this.size + socketBytes + text.length + OBJECT_BYTES > this.#options.outboundBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#options.outboundBytes})`);
    }
    const key = `${service} ${timeoutMs} ${topic}`;
    let batch = this.#open.get(key);
    if (!batch || batch.texts.length >= REQUESTS || batch.size + text.length > BATCH_CHARACTERS) {
      batch = { target, texts: [], askers: [], size: 0, left: 0, sent: false, endsAt: now() + timeoutMs };
      batch.timer = setTimeout(() => this.#overdue(batch), timeoutMs);
      this.#open.set(key, batch);
      this.#waiting.push(batch);
    }
    const asker = deferred();
    batch.texts.push(text);
    batch.askers.push(asker);
    batch.left += 1;
    batch.size += text.length + OBJECT_BYTES;
    this.size += text.length + OBJECT_BYTES;
    return asker.promise;
  }

  /** Returns the messages to be sent now. */
  take() {
    this.#open.clear();
    const batches = this.#waiting.splice(0);
    this.size = 0;
    return batches.map((batch) => {
      const first = this.#next + batch.texts.length > TRANSACTIONS ? 1 : this.#next;
      this.#next = first + batch.texts.length;
      batch.askers.forEach((asker, at) => this.#askers.set(first + at, { asker, batch }));
      const { topic, service } = batch.target;
      const values = `"values":[${batch.texts.join(",")}]`;
      batch.sent = true;
      batch.first = first;
      batch.texts = [];
      const timeoutMs = Math.max(1, Math.ceil(batch.endsAt - now()));
      const name = `"${service ? "service" : "topic"}":${JSON.stringify(topic)}`;
      return `{"type":"request","request":${first},${name},"timeout_ms":${timeoutMs},${values}}`;
    });
  }

  answer({ request, value, values, status = 0, text = "", count = 1 }) {
    if (status) {
      for (let at = 0; at < count; at += 1) this.#settle(request + at, new RequestError(status, text));
    } else if (values === undefined) {
      this.#settle(request, null, value);
    } else {
      values.forEach((each, at) => this.#settle(request + at, null, each));
    }
  }

  /** The hub does not take a message; true if it is one of these. */
  refuse(first, error) {
    const batch = this.#askers.get(first)?.batch;
    if (batch === undefined) return false;
    batch.askers.forEach((_, at) => this.#settle(first + at, error));
    return true;
  }

  /** The connection is lost: what was sent has no answer. */
  fail(error) {
    for (const number of [...this.#askers.keys()]) this.#settle(number, error);
  }

  failAll(error) {
    this.fail(error);
    this.#open.clear();
    for (const batch of this.#waiting.splice(0)) this.#drop(batch, error);
    this.size = 0;
  }

  #settle(number, error, value) {
    const found = this.#askers.get(number);
    if (found === undefined) return; // late
    this.#askers.delete(number);
    found.batch.left -= 1;
    if (found.batch.left === 0) clearTimeout(found.batch.timer);
    found.asker.settle(error, value);
  }

  #drop(batch, error) {
    clearTimeout(batch.timer);
    batch.askers.forEach((asker) => asker.reject(error));
  }

  /** The hub keeps the time of what was sent; it is given up only where the hub does not even say that time is up. */
  #overdue(batch) {
    if (!batch.sent) {
      this.#waiting = this.#waiting.filter((other) => other !== batch);
      for (const [key, open] of this.#open) if (open === batch) this.#open.delete(key);
      this.size -= batch.size;
      this.#drop(batch, new RequestError(TIMED_OUT, "there was no connection in time"));
    } else if (batch.spared) {
      batch.askers.forEach((_, at) => {
        this.#settle(batch.first + at, new RequestError(TIMED_OUT, "the hub has not answered in time"));
      });
    } else {
      batch.spared = true;
      batch.timer = setTimeout(() => this.#overdue(batch), this.#options.answerMs);
    }
  }
}

/** What one caller of `consume` holds: its share of a consumer, for as long as a connection lasts. */
class Membership {
  #ask;
  #member = 0;
  #before = 0; // the last one, which the hub may not know to be over
  #got = 0; // how many messages have come: where the hub has sent more, an answer was lost, and comes again
  #seen = new Set(); // offsets that were handed out and not acknowledged
  #acks = [];
  #telling = null;

  constructor(ask) {
    this.#ask = ask;
  }

  async join(joining) {
    this.#before = this.#member || this.#before;
    this.#member = 0;
    this.#got = 0;
    this.#seen = new Set();
    this.#acks = [];
    this.#member = (await this.#ask("join", { ...joining, instead: this.#before })).member;
  }

  /** Yields messages until this is no member any more. */
  async *messages() {
    for (;;) {
      const asked = { member: this.#member, wait_ms: CONSUME_WAIT_MS, values: true, got: this.#got };
      const rows = await this.#ask("take", asked);
      if (rows === null) return;
      this.#got += rows.length;
      const seen = this.#seen;
      for (const [offset, timeUs, deliveries, topic, readable, value] of rows) {
        seen.add(offset);
        const ack = () => this.#acknowledge(seen, offset);
        if (readable) yield { offset, time: new Date(timeUs / 1000), topic, value, deliveries, ack };
        else ack();
      }
    }
  }

  #acknowledge(seen, offset) {
    if (seen !== this.#seen || !seen.delete(offset)) return; // it is delivered again, or was acknowledged
    this.#acks.push(offset);
    this.#telling ??= this.#tell();
  }

  async #tell() {
    await undefined; // all of this turn together
    try {
      while (this.#acks.length && this.#member) {
        await this.#ask("acknowledge", { member: this.#member, offsets: this.#acks.splice(0) });
      }
    } catch {
      // what the hub was not told of comes again
    } finally {
      this.#telling = null;
    }
  }

  async leave() {
    await this.#telling;
    try {
      if (this.#member) await this.#ask("leave", { member: this.#member, seen: [...this.#seen] });
    } catch {
      // it has left with its connection
    }
  }
}

/** What one caller of `serve` holds. */
class Service {
  #close;
  #confirmed = handled(deferred());

  constructor(prefixes, answer, close) {
    this.prefixes = Object.freeze(prefixes);
    this.answer = answer;
    this.#close = close;
  }

  /** A promise that the hub has taken it: it stays open while there is no connection. */
  get confirmed() {
    return this.#confirmed.promise;
  }

  /** Serve no longer; resolves when the hub sends nothing more. What runs is still answered. */
  close() {
    return this.#close(this);
  }

  confirmedBy(error) {
    this.#confirmed.settle(error);
  }
}

/** What one caller of `claim` holds. */
class ClaimedName {
  #standing = "asked";
  #reason = "";
  #release;
  #confirmed = handled(deferred());
  #wasConfirmed = false;
  #owned = handled(deferred());

  constructor(name, labels, queue, release) {
    Object.assign(this, { name, labels: Object.freeze(labels), queue });
    this.#release = release;
  }

  get owned() {
    return this.#standing === "owned";
  }

  /** "asked" (also while there is no connection), "queued", "owned", or "ended". */
  get standing() {
    return this.#standing;
  }

  /** Why it is not owned, or not any more; for people. */
  get reason() {
    return this.#reason;
  }

  get confirmed() {
    return this.#confirmed.promise;
  }

  /** A promise that this client owns it; rejects when it does not claim it any more. */
  whenOwned() {
    return this.#owned.promise;
  }

  /** Give it up, or wait for it no longer. */
  release() {
    return this.#release(this);
  }

  stand(standing, reason = "") {
    if (this.owned && standing !== "owned") this.#owned = handled(deferred());
    this.#standing = standing;
    this.#reason = reason;
    if (standing === "asked") return;
    this.#wasConfirmed = true;
    this.#confirmed.resolve();
    if (standing === "owned") this.#owned.resolve();
  }

  /** Returns whether it had been confirmed before. */
  end(error) {
    this.stand("asked", error.message); // no promise of before tells that it is owned
    this.#standing = "ended";
    this.#confirmed.reject(error);
    this.#owned.reject(error);
    return this.#wasConfirmed;
  }
}

/** Who answers which requests, and what they have answered in this turn. */
class Services {
  all = new Set();
  #schedule;
  #report;
  #replies = []; // {request, text}
  #failures = [];
  #connection = 0; // answers to what came over an earlier one are thrown away

  constructor(schedule, report) {
    this.#schedule = schedule;
    this.#report = report;
  }

  add(service) {
    for (const prefix of service.prefixes) {
      if (this.#find(prefix)?.prefixes.includes(prefix)) throw new TypeError(`this client serves ${prefix} already`);
    }
    this.all.add(service);
  }

  remove(service) {
    this.all.delete(service);
  }

  receive({ request, topic, service, value, values }) {
    const target = topic ?? service;
    const found = this.#find(target);
    (values ?? [value]).forEach((each, at) => this.#ask(found, target, each, (request + at) % TRANSACTIONS));
  }

  /** Returns the messages to be sent now: replies whose numbers follow one another are one. */
  take() {
    const texts = [];
    const replies = this.#replies.splice(0).sort((one, other) => one.request - other.request);
    for (let start = 0, end = 0; start < replies.length; start = end) {
      let size = 0;
      do {
        size += replies[end].text.length;
        end += 1;
      } while (end < replies.length && replies[end].request === replies[end - 1].request + 1
        && end - start < REQUESTS && size + replies[end].text.length <= BATCH_CHARACTERS);
      const values = replies.slice(start, end).map((reply) => reply.text).join(",");
      texts.push(`{"type":"reply","request":${replies[start].request},"values":[${values}]}`);
    }
    for (const failure of this.#failures.splice(0)) texts.push(JSON.stringify(failure));
    return texts;
  }

  /** The connection is lost, and with it whoever asked. */
  forget() {
    this.#connection += 1;
    this.#replies = [];
    this.#failures = [];
  }

  close(error) {
    this.forget();
    for (const service of this.all) service.confirmedBy(error);
    this.all.clear();
  }

  #ask(service, topic, value, request) {
    if (service === undefined) return this.#fail(request, "this client no longer serves that", this.#connection);
    const connection = this.#connection;
    const put = (answer) => this.#put(request, answer, connection);
    const fail = (error) => {
      this.#fail(request, String(error?.message ?? error), connection);
      this.#report(error);
    };
    try {
      const answer = service.answer({ topic, value });
      if (typeof answer?.then === "function") return Promise.resolve(answer).then(put).catch(fail);
      put(answer);
    } catch (error) {
      fail(error);
    }
    return undefined;
  }

  #put(request, answer, connection) {
    const text = jsonOf(answer ?? null);
    if (connection !== this.#connection) return;
    this.#replies.push({ request, text });
    this.#schedule();
  }

  #fail(request, text, connection) {
    if (connection !== this.#connection) return;
    this.#failures.push({ type: "reply", request, status: FAILED, text });
    this.#schedule();
  }

  /** The longest prefix wins, as in the hub. */
  #find(topic) {
    let found;
    let length = -1;
    for (const service of this.all) {
      for (const prefix of service.prefixes) {
        if (prefix.length > length && topic.startsWith(prefix)) [found, length] = [service, prefix.length];
      }
    }
    return found;
  }
}

/** Which subscriptions hold which prefix, and which of them want a topic. Counts references; knows no socket. */
class Filter {
  entries = new Map(); // prefix, or the text of a rule → {prefix, rule (null for a prefix), subscriptions, confirmed}
  #rules = new Set(); // the entries that are rules
  #lengths = new Map(); // length of a prefix → how many have it
  #routes = new Map(); // topic → subscriptions, a cache

  /** Returns the entries that are new and so have to be told to the hub. */
  add(subscription) {
    this.#routes.clear();
    const fresh = [];
    const { rule } = subscription;
    const held = subscription.keys.map((prefix) => {
      let entry = this.entries.get(prefix);
      if (entry === undefined) {
        entry = { prefix, rule, subscriptions: new Set(), confirmed: deferred() };
        this.entries.set(prefix, entry);
        if (rule === null) this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1);
        else this.#rules.add(entry);
        if (rule?.to) entry.confirmed.resolve(); // of no concern to the hub
        else fresh.push(entry);
      }
      entry.subscriptions.add(subscription);
      return entry.confirmed.promise;
    });
    subscription.confirmedBy(held);
    return fresh;
  }

  /** Returns the entries that nobody holds any more. */
  remove(subscription) {
    this.#routes.clear();
    const unused = [];
    for (const prefix of subscription.keys) {
      const entry = this.entries.get(prefix);
      if (!entry?.subscriptions.delete(subscription) || entry.subscriptions.size > 0) continue;
      this.entries.delete(prefix);
      if (entry.rule !== null) {
        this.#rules.delete(entry);
        if (!entry.rule.to) unused.push(entry);
        continue;
      }
      const left = this.#lengths.get(prefix.length) - 1;
      if (left > 0) this.#lengths.set(prefix.length, left);
      else this.#lengths.delete(prefix.length);
      unused.push(entry);
    }
    return unused;
  }

  /** Returns all subscriptions there were. */
  clear() {
    const subscriptions = new Set([...this.entries.values()].flatMap((entry) => [...entry.subscriptions]));
    for (const subscription of subscriptions) this.remove(subscription);
    return subscriptions;
  }

  /** O(1) for a topic seen lately, else one lookup for each distinct length of a prefix. */
  route(topic) {
    let found = this.#routes.get(topic);
    if (found === undefined) {
      const matches = [...this.#lengths.keys()].map((length) => this.entries.get(topic.slice(0, length)));
      found = [...new Set(matches.flatMap((entry) => [...(entry?.subscriptions ?? [])]))];
      if (this.#routes.size >= CACHED_TOPICS) this.#routes.clear();
      this.#routes.set(topic, found);
    }
    return found;
  }

  /** The same of a message with labels or names. */
  routeBeside(topic, beside) {
    const found = new Set(this.route(topic));
    for (const { rule, subscriptions } of this.#rules) {
      if (isMatch(rule, topic, beside)) subscriptions.forEach((subscription) => found.add(subscription));
    }
    return found;
  }
}

/** Values on their way out: sealed frames, oldest first, and the open batch; bounded with the bytes in the socket. */
class Outbox {
  size = 0;
  #limitBytes;
  #frames = []; // {text: a publish message without its last brace, waiters, recorded, count}
  #batch = null;
  #batchCharacters = BATCH_CHARACTERS;

  constructor(limitBytes) {
    this.#limitBytes = limitBytes;
  }

  /** An eighth of what the hub takes leaves room for characters of three bytes, and for the longest topic. */
  limitBatches(frameBytes) {
    this.#batchCharacters = Math.min(BATCH_CHARACTERS, frameBytes / 8);
  }

  add({ topic, beside }, text, waiter, recorded, socketBytes) {
    const cost = text.length + (waiter ? OBJECT_BYTES : 0);
    if (this.size + socketBytes + cost > this.#limitBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#limitBytes})`);
    }
    const batch = this.#batch;
    if (batch && (batch.topic !== topic || batch.beside !== beside || batch.recorded !== recorded
        || batch.characters + text.length > this.#batchCharacters)) {
      this.seal();
    }
    if (this.#batch === null) {
      this.#batch = { topic, beside, texts: [], waiters: [], recorded, characters: 0 };
      this.size += topic.length + beside.length + OBJECT_BYTES;
    }
    this.#batch.texts.push(text);
    this.#batch.characters += text.length + 1;
    if (waiter) this.#batch.waiters.push(waiter);
    this.size += cost;
  }

  /** Ends the open batch: what comes later is a message of its own. */
  seal() {
    if (this.#batch === null) return;
    const { topic, beside, texts, waiters, recorded } = this.#batch;
    const text = `{"type":"publish","topic":${JSON.stringify(topic)}${beside},"values":[${texts.join(",")}]`;
    this.#frames.push({ text, waiters, recorded, count: texts.length });
    this.#batch = null;
  }

  take() {
    const frames = this.#frames;
    this.#frames = [];
    this.size = 0;
    return frames;
  }

  /** Returns how many values are lost. */
  discard(error) {
    this.seal();
    return this.take().reduce((lost, { waiters, count }) => {
      waiters.forEach((waiter) => waiter.reject(error));
      return lost + count;
    }, 0);
  }
}

/** What `client.messages()` returns: an async iterator over a buffer that drops its oldest when it is full. */
class MessageStream {
  dropped = 0;
  subscription = null; // set by whoever made both
  #options;
  #skipped;
  #buffer = []; // {message, size}, from #head on
  #head = 0;
  #bytes = 0;
  #takers = [];
  #ended = false;
  #error = null;
  #relieved = null; // of who waits for room

  constructor(options, skipped) {
    this.#options = options;
    this.#skipped = skipped;
  }

  get confirmed() {
    return this.subscription.confirmed;
  }

  push(message, size) {
    const taker = this.#takers.shift();
    if (taker) return taker.resolve({ value: message, done: false });
    this.#buffer.push({ message, size });
    this.#bytes += size;
    const { bufferMessages, bufferBytes } = this.#options;
    while (this.#buffer.length - this.#head > bufferMessages || this.#bytes > bufferBytes) {
      this.#shift();
      this.dropped += 1;
      this.#skipped(1);
    }
    return undefined;
  }

  /** A promise while more than half of what may wait does; for who can wait with more. */
  room() {
    if (this.#ended || this.#buffer.length - this.#head <= this.#options.bufferMessages / 2) return undefined;
    this.#relieved = deferred();
    return this.#relieved.promise;
  }

  /** What is buffered can still be taken; then the iteration ends, with the error if the hub refused us. */
  end(error) {
    this.#ended = true;
    this.#relieved?.resolve();
    this.#error = error?.code === 1000 ? null : error;
    for (const taker of this.#takers.splice(0)) this.#finish(taker);
  }

  next() {
    if (this.#head < this.#buffer.length) return Promise.resolve({ value: this.#shift(), done: false });
    const taker = deferred();
    if (this.#ended) this.#finish(taker);
    else this.#takers.push(taker);
    return taker.promise;
  }

  async return() {
    this.#buffer.length = this.#head = this.#bytes = 0;
    this.#relieved?.resolve();
    await this.subscription.unsubscribe();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #finish(taker) {
    if (this.#error) taker.reject(this.#error);
    else taker.resolve({ value: undefined, done: true });
    this.#error = null;
  }

  /** Amortised O(1): the taken front is cut off once it is as long as the buffer may be. */
  #shift() {
    const { message, size } = this.#buffer[this.#head];
    this.#buffer[this.#head] = undefined;
    this.#head += 1;
    this.#bytes -= size;
    if (this.#buffer.length - this.#head <= this.#options.bufferMessages / 2) this.#relieved?.resolve();
    if (this.#head === this.#buffer.length || this.#head > this.#options.bufferMessages) {
      this.#buffer = this.#buffer.slice(this.#head);
      this.#head = 0;
    }
    return message;
  }
}

// --- stores -----------------------------------------------------------------------------------------------------------

/** What `client.store` returns. All calls reject as `request` does, and with a TypeError where a value has no form. */
class Store {
  /** The highest number of a change that this object has made: a replica that is as new has them all. */
  written = 0;
  #line;
  #topic;

  constructor(name, line) {
    if (typeof name !== "string" || name === "" || /[/=]/.test(name)) throw new TypeError(`no name of a store: ${name}`);
    this.name = name;
    this.#line = line;
    this.#topic = checkedTopic(`$store/${name}/`);
  }

  /** Set the value of a key. Returns the new version; null if there was another one than `ifVersion` (0: no entry). */
  async put(key, value, { expiresS, ifVersion = null } = {}) {
    return this.#change(["put", sent(key), sent(value), expiryNs(expiresS), ifVersion]);
  }

  /** The same without an answer: nobody learns whether it was carried out. Throws as `publish` does. */
  putNowait(key, value, { expiresS } = {}) {
    this.#line.publish(`${this.#topic}write`, ["put", sent(key), sent(value), expiryNs(expiresS)]);
  }

  /** Set the value of a key that has no entry; returns whether that was so. */
  async putUnique(key, value, { expiresS } = {}) {
    return await this.#change(["put_unique", sent(key), sent(value), expiryNs(expiresS)]) !== null;
  }

  /** Take an entry away; returns whether there was one, with this version if one is given. */
  async erase(key, { ifVersion = null } = {}) {
    return await this.#change(["erase", sent(key), null, null, ifVersion]) !== null;
  }

  /** Take all entries away. */
  async clear() {
    await this.#change(["clear"]);
  }

  /** Add to a number of the same type, or a timespan to a timestamp or timespan; a missing number is 0. */
  async increment(key, by = 1, { expiresS } = {}) {
    return this.#calculate("increment", key, by, expiresS);
  }

  /** Subtract likewise; there must be an entry. */
  async decrement(key, by = 1, { expiresS } = {}) {
    return this.#calculate("decrement", key, by, expiresS);
  }

  /** Put text behind a string. */
  async append(key, text, { expiresS } = {}) {
    return this.#calculate("append", key, text, expiresS);
  }

  /** Put a member into a set, or with a value an entry into a table. */
  async insert(key, member, value = undefined, { expiresS } = {}) {
    if (value === undefined) return this.#calculate("insert", key, member, expiresS);
    return this.#calculate("insert_entry", key, [member, value], expiresS);
  }

  /** Take a member out of a set, or the entry of a key out of a table. */
  async remove(key, member, { expiresS } = {}) {
    return this.#calculate("remove", key, member, expiresS);
  }

  /** Put an element behind a vector. */
  async push(key, element, { expiresS } = {}) {
    return this.#calculate("push", key, element, expiresS);
  }

  /** Take the last element off a vector. */
  async pop(key, { expiresS } = {}) {
    return this.#calculate("pop", key, null, expiresS);
  }

  /** The value of a key; `fallback` if there is none. */
  async get(key, fallback = null) {
    const found = await this.#read(["get", sent(key)]);
    return found === null ? fallback : received(found[0]);
  }

  /** `{key, value, version, expiresS}`; null if there is no entry. */
  async entry(key) {
    const found = await this.#read(["get", sent(key)]);
    return found === null ? null : entryOf(key, found);
  }

  async exists(key) {
    return this.#read(["exists", sent(key)]);
  }

  /** An element of a vector, the value of a table's key, or whether a set has a member; `fallback` if it is not there. */
  async index(key, index, fallback = null) {
    const found = await this.#read(["index", sent(key), sent(index)]);
    return found === null ? fallback : received(found);
  }

  /** All keys, or those that are strings and begin with the prefix. */
  async keys(prefix = "") {
    const found = [];
    for await (const key of this.#rows(prefix, false)) found.push(received(key));
    return found;
  }

  /** Yields the entries likewise, as they are by then. */
  async *entries(prefix = "") {
    for await (const [key, ...entry] of this.#rows(prefix, true)) yield entryOf(received(key), entry);
  }

  /** `{epoch, number, entries, bytes}`. */
  async state() {
    const [epoch, number, entries, bytes] = await this.#read(["state"]);
    return { epoch, number, entries, bytes };
  }

  /**
   * Iterate over what is there, and then over each change: `for await (const change of store.watch("sensor-"))`.
   *
   * A change is `{kind, key, value, old, version, publisher, present}`. Nothing is missing in between, also where the
   * connection is lost meanwhile, which the client's events tell. Leaving the loop ends it.
   */
  watch(prefix = "") {
    return new StoreWatch((told, ended) => this.#copy(checkedString(prefix), told, ended));
  }

  /** Copy the store into this page, to read it without asking. */
  replica() {
    return new StoreReplica((told, ended) => this.#copy("", told, ended));
  }

  #copy(prefix, told, ended) {
    const line = { ...this.#line, read: (asked) => this.#read(asked) };
    return new Copying(line, `${this.#topic}changes/`, prefix, told, ended);
  }

  #read(asked) {
    return this.#line.request(`${this.#topic}read`, asked);
  }

  async #change(command) {
    return this.#noted(await this.#line.request(`${this.#topic}write`, command));
  }

  async #calculate(kind, key, operand, expiresS) {
    const command = [kind, sent(key), sent(operand), expiryNs(expiresS)];
    const [number, value] = await this.#line.request(`${this.#topic}write`, command);
    this.#noted(number);
    return received(value);
  }

  async *#rows(prefix, values) {
    let [, reading, , , rows] = await this.#read(["rows", checkedString(prefix), values]);
    yield* rows;
    while (reading) {
      [, reading, , , rows] = await this.#read(["more", reading]);
      yield* rows;
    }
  }

  #noted(number) {
    this.written = Math.max(this.written, number ?? 0);
    return number;
  }
}

/** What `store.watch` returns: the changes, the present state first. */
class StoreWatch {
  #copying;
  #changes = []; // from #head on
  #head = 0;
  #takers = [];
  #ended = false;
  #error = null;

  constructor(copy) {
    this.#copying = copy((changes) => this.#take(changes), (error) => this.#end(error));
  }

  /** A promise that the present state is there; it rejects where there is none to be had. */
  get confirmed() {
    return this.#copying.confirmed;
  }

  next() {
    if (this.#head < this.#changes.length) {
      try {
        return Promise.resolve({ value: changeOf(this.#shift()), done: false });
      } catch (error) {
        return Promise.reject(error);
      }
    }
    const taker = deferred();
    if (this.#ended) this.#finish(taker);
    else this.#takers.push(taker);
    return taker.promise;
  }

  /** End it; what was not taken is thrown away. */
  async return() {
    this.#changes.length = this.#head = 0;
    await this.#copying.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #take(changes) {
    this.#changes.push(...changes.filter(({ isOther }) => !isOther));
    while (this.#takers.length && this.#head < this.#changes.length) {
      const taker = this.#takers.shift();
      this.next().then((found) => taker.resolve(found), taker.reject);
    }
    if (this.#changes.length - this.#head >= HELD_CHANGES) this.#copying.pause();
  }

  #shift() {
    const change = this.#changes[this.#head];
    this.#changes[this.#head] = undefined;
    this.#head += 1;
    if (this.#changes.length - this.#head <= HELD_CHANGES / 2) this.#copying.resume();
    if (this.#head === this.#changes.length || this.#head >= HELD_CHANGES) {
      this.#changes = this.#changes.slice(this.#head);
      this.#head = 0;
    }
    return change;
  }

  #end(error) {
    this.#ended = true;
    this.#error = error?.code === 1000 ? null : error;
    for (const taker of this.#takers.splice(0)) this.#finish(taker);
  }

  #finish(taker) {
    if (this.#error) taker.reject(this.#error);
    else taker.resolve({ value: undefined, done: true });
    this.#error = null;
  }
}

/** What `store.replica` returns: a copy that is read without asking. It may be behind, and says how old it is. */
class StoreReplica {
  #copying;

  constructor(copy) {
    this.#copying = copy(() => {}, () => {});
  }

  /** A promise that it holds a state of the store. */
  get confirmed() {
    return this.#copying.confirmed;
  }

  get(key, fallback = null) {
    const entry = this.#copying.copy.entries.get(keyText(key));
    return entry === undefined ? fallback : received(entry.value);
  }

  /** The version of a key's entry; 0 if there is none. */
  version(key) {
    return this.#copying.copy.entries.get(keyText(key))?.version ?? 0;
  }

  has(key) {
    return this.#copying.copy.entries.has(keyText(key));
  }

  get size() {
    return this.#copying.copy.entries.size;
  }

  /** Yields keys and values of one state: that of the call. */
  items() {
    const entries = [...this.#copying.copy.entries];
    return (function* each() {
      for (const [key, { value }] of entries) yield [received(key), received(value)];
    }());
  }

  /** The number of the last change that it has. */
  get number() {
    return this.#copying.copy.number;
  }

  /** How long ago the store was as this copy is, at most, seconds; Infinity where nobody knows. */
  get ageS() {
    return (now() - this.#copying.copy.freshMs) / 1_000;
  }

  /** Wait until it has a change, as `store.written`. Rejects with 1013 where that takes longer, or as it has ended. */
  async atLeast(version, { timeoutMs = REQUEST_MS } = {}) {
    await this.#copying.reach(version, timeoutMs);
    return this;
  }

  /** Copy no more. What is there can still be read, and grows old. */
  close() {
    return this.#copying.close();
  }
}

/**
 * Keeps a copy of a store equal to its master, over a client that may lose its connection.
 *
 * It subscribes first and reads the entries then, so that nothing falls in between. What the copy misses is asked for at
 * once; once a second, and over each new connection, the master is asked how far it is.
 */
class Copying {
  copy = new Copy();
  #line;
  #prefix;
  #told;
  #finished;
  #subscription;
  #confirmed = handled(deferred());
  #room = null; // of who has enough for now
  #wake = null; // ends a pause
  #isWanted = false; // something is to be asked for
  #waiters = new Set(); // {version, settle}
  #off;
  #left; // settles as the hub sends no more changes
  #error = null;

  constructor(line, topic, prefix, told, finished) {
    this.#line = line;
    this.#prefix = prefix;
    this.#told = told;
    this.#finished = finished;
    this.#subscription = line.subscribe(topic, ({ value: [epoch, rows] }) => this.#hear(epoch, rows), (error) => {
      this.#end(error ?? new HubError(1000, "the store is not copied any more"));
    });
    this.#off = ["open", "dropped"].map((event) => line.on(event, () => this.#want()));
    this.#run().catch((error) => this.#end(error));
  }

  get confirmed() {
    return this.#confirmed.promise;
  }

  pause() {
    this.#room ??= deferred();
  }

  resume() {
    if (this.#room === null) return;
    this.#room.resolve();
    this.#room = null;
    this.#want();
  }

  async close() {
    this.#end(new HubError(1000, "the store is not copied any more"));
    await this.#left;
  }

  reach(version, timeoutMs) {
    if (this.copy.isReady && this.copy.number >= version) return Promise.resolve();
    if (this.#error) return Promise.reject(this.#error);
    const done = deferred();
    const waiter = { version, settle: done.settle };
    const timer = setTimeout(() => {
      done.reject(new HubError(1013, `the copy is at ${this.copy.number}, and has not come to ${version} in time`));
    }, timeoutMs);
    this.#waiters.add(waiter);
    this.#want();
    return done.promise.finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
    });
  }

  #end(error) {
    if (this.#error) return;
    this.#error = error;
    for (const off of this.#off) off();
    this.#room?.resolve();
    this.#wake?.();
    this.#confirmed.reject(error);
    for (const { settle } of this.#waiters) settle(error);
    this.#left = this.#subscription.unsubscribe();
    this.#finished(error);
  }

  #want() {
    this.#isWanted = true;
    this.#wake?.();
  }

  #hear(epoch, rows) {
    if (this.#room) return; // what is missing then is asked for later
    this.#tell(this.copy.hear(epoch, this.#changes(rows)));
    if (this.copy.needs !== NOTHING) this.#want();
  }

  /** Changes of entries that are not copied do nothing. */
  #changes(rows) {
    return rows.map(([number, kind, key, value, , publisher]) => {
      const change = { number, kind, key, value, old: null, publisher, present: false, isOther: false };
      if (kind === CLEARED || beginsWith(key, this.#prefix)) return change;
      return { ...change, kind: ERASED, value: null, isOther: true };
    });
  }

  #tell(changes) {
    if (changes.length) this.#told(changes);
    for (const { version, settle } of this.#waiters) if (this.copy.isReady && this.copy.number >= version) settle(null);
  }

  async #run() {
    await this.#subscription.confirmed;
    let [failures, refusals] = [0, 0];
    while (!this.#error) {
      this.#isWanted = false;
      let waitMs = CHECK_MS;
      try {
        do {
          await this.#room?.promise;
          if (this.#error) return;
          await this.#fill();
        } while (this.copy.needs !== NOTHING || this.copy.freshMs === -Infinity);
        this.#confirmed.resolve();
        [failures, refusals] = [0, 0];
      } catch (error) {
        if (this.#isFinal(error)) throw error;
        refusals = PASSING.includes(error.status) || error.code === 1006 ? 0 : refusals + 1;
        if (refusals > REFUSALS) throw error;
        waitMs = Math.min(COPY_RETRY_MAX_MS, COPY_RETRY_MS * 2 ** failures);
        failures += 1;
      }
      if (!this.#isWanted || failures) await this.#pause(waitMs);
    }
  }

  /** Whether it is of no use to ask again. A store that was there may come back. */
  #isFinal(error) {
    return this.#error || error.code === 1000 || error.status === NOT_ALLOWED || !(error instanceof HubError)
      || (error.status === NO_RESPONDER && !this.copy.isReady);
  }

  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Ask for what is missing, once; where nothing is, how far the master is. */
  async #fill() {
    const { copy } = this;
    if (copy.needs === SNAPSHOT) return this.#load();
    if (copy.needs === NOTHING) {
      const askedMs = now();
      const [epoch, number] = await this.#line.read(["state"]);
      return copy.heard(epoch, number, askedMs);
    }
    const answer = await this.#line.read(["since", copy.number]);
    if (answer === null) return copy.forgotten();
    return this.#tell(copy.hear(answer[0], this.#changes(answer[2])));
  }

  async #load() {
    try {
      let [epoch, reading, first, number, rows] = await this.#line.read(["rows", this.#prefix, true]);
      this.copy.begin(epoch, first);
      this.copy.take(rows);
      while (reading) {
        [, reading, , number, rows] = await this.#line.read(["more", reading]);
        this.copy.take(rows);
      }
      this.#tell(this.copy.finish(number));
    } catch (error) {
      this.copy.forgotten();
      throw error;
    }
  }
}

/**
 * A copy of a store, made of its entries as they were read, page by page, and of the changes behind the beginning of
 * that. Each change is applied once, in the order of their numbers; what comes before its turn is held. The same as
 * hub/stores/replica.py.
 */
class Copy {
  entries = new Map(); // key → {value, version}, both as they came: equal keys have equal texts
  isReady = false;
  freshMs = -Infinity; // the master's state was this one at that time
  #epoch = 0;
  #number = 0;
  #loading = null; // {epoch, number, until, entries}: a state that is being read
  #mustLoad = true;
  #heardEpoch = 0; // the highest; in it, the highest number, and when that was heard
  #last = 0;
  #heardMs = null;
  #held = new Map(); // changes that wait for one before them

  get number() {
    return this.#loading?.number ?? this.#number;
  }

  get needs() {
    const loading = this.#loading;
    if (loading === null) return this.#mustLoad ? SNAPSHOT : this.#number < this.#last ? CHANGES : NOTHING;
    return loading.until !== null && loading.number < Math.max(loading.until, this.#last) ? CHANGES : NOTHING;
  }

  begin(epoch, number) {
    this.#turnTo(epoch);
    this.#loading = null;
    this.#mustLoad = epoch < this.#heardEpoch; // it is of a life that is over
    if (this.#mustLoad) return;
    this.#loading = { epoch, number, until: null, entries: new Map() };
    for (const each of [...this.#held.keys()]) if (each <= number) this.#held.delete(each);
  }

  take(rows) {
    for (const [key, value, version] of rows) this.#loading?.entries.set(key, { value, version });
  }

  /** There are no more pages. Returns what has changed, as `hear`. */
  finish(number) {
    if (this.#loading === null) return [];
    this.#loading.until = number;
    return this.#goOn();
  }

  forgotten() {
    this.#loading = null;
    this.#mustLoad = true;
  }

  /** Returns the changes that were applied, in order. */
  hear(epoch, changes) {
    this.#turnTo(epoch);
    if (epoch < this.#heardEpoch) return [];
    const number = epoch === (this.#loading?.epoch ?? this.#epoch) ? this.number : 0;
    for (const change of changes) {
      if (change.number <= number) continue;
      this.#last = Math.max(this.#last, change.number);
      if (change.number - number <= HELD_CHANGES || (this.#mustLoad && this.#held.size < HELD_CHANGES)) {
        this.#held.set(change.number, change);
      }
    }
    return this.#goOn();
  }

  /** The master's last change had this number, at that time or later. */
  heard(epoch, number, atMs) {
    this.#turnTo(epoch);
    if (epoch !== this.#heardEpoch || number < this.#last) return;
    this.#last = number;
    this.#heardMs = atMs;
    this.#refresh();
  }

  #turnTo(epoch) {
    if (epoch <= this.#heardEpoch) return;
    this.#heardEpoch = epoch;
    this.#last = 0;
    this.#heardMs = null;
    this.#held.clear();
    this.forgotten();
  }

  #refresh() {
    if (this.needs === NOTHING && this.#loading === null && this.#heardMs !== null) this.freshMs = this.#heardMs;
  }

  #goOn() {
    const loading = this.#loading;
    if (loading === null) {
      if (this.#mustLoad) return [];
      const applied = this.#apply(this.entries, this.#number);
      this.#number += applied.length;
      this.#refresh();
      return applied;
    }
    if (loading.until === null) return [];
    loading.number += this.#apply(loading.entries, loading.number).length;
    if (loading.number < loading.until) return [];
    const before = this.entries;
    const present = !this.isReady;
    this.entries = loading.entries;
    this.#epoch = loading.epoch;
    this.#number = loading.number;
    this.#last = Math.max(this.#last, this.#number);
    this.isReady = true;
    this.#loading = null;
    this.#refresh();
    return differences(before, this.entries, this.#number, present);
  }

  #apply(entries, number) {
    const applied = [];
    for (let next = number + 1; this.#held.has(next); next += 1) {
      applied.push(applyChange(entries, this.#held.get(next)));
      this.#held.delete(next);
    }
    return applied;
  }
}

/** Pages may have brought newer versions than those that a change makes. Returns it with the old value of here. */
function applyChange(entries, change) {
  const { number, kind, key, value } = change;
  if (kind === CLEARED) {
    for (const [each, { version }] of entries) if (version < number) entries.delete(each);
    return change;
  }
  const entry = entries.get(key);
  if (entry === undefined || entry.version < number) {
    if (value === null) entries.delete(key);
    else entries.set(key, { value, version: number });
  }
  return entry === undefined ? change : { ...change, old: entry.value };
}

/** What turns one state into another, as changes. */
function differences(before, behind, number, present) {
  const made = { old: null, publisher: null, present };
  const gone = [...before].filter(([key]) => !behind.has(key)).map(([key, { value }]) => (
    { ...made, number, kind: ERASED, key, value: null, old: value }));
  const fresh = [...behind].filter(([key, { value, version }]) => {
    const old = before.get(key);
    return old === undefined || old.version !== version || old.value !== value;
  }).map(([key, { value, version }]) => (
    { ...made, number: version, kind: PUT, key, value, old: before.get(key)?.value ?? null }));
  return [...gone, ...fresh.sort((one, other) => one.number - other.number)];
}

function changeOf({ number, kind, key, value, old, publisher, present }) {
  return {
    kind: CHANGE_KINDS[kind], key: kind === CLEARED ? null : received(key), value: received(value), old: received(old),
    version: number, publisher, present,
  };
}

function entryOf(key, [value, version, leftNs]) {
  return { key, value: received(value), version, expiresS: leftNs === null ? null : leftNs / 1e9 };
}

function expiryNs(expiresS) {
  if (expiresS === undefined || expiresS === null) return null;
  if (!(expiresS > 0 && expiresS <= 9e9)) throw new TypeError(`expiresS is ${expiresS}: seconds, more than 0`);
  return Math.round(expiresS * 1e9);
}

/** Whether a key, as it travels, is a string that begins like this. */
function beginsWith(key, prefix) {
  if (prefix === "") return true;
  try {
    const found = received(key);
    return typeof found === "string" && found.startsWith(prefix);
  } catch {
    return false; // none that is understood here
  }
}

/** A key as the store has it. */
function keyText(key) {
  if (!isOneForm(key)) throw new TypeError("a replica finds no key that holds sets, maps, dates or bytes: ask the store");
  return sent(key);
}

/** Whether a value has the same form in the store as here; others are sorted there, or turned into what Zeek knows. */
function isOneForm(value) {
  if (Array.isArray(value)) return value.every(isOneForm);
  if (typeof value === "bigint") return value < 2n ** 63n;
  if (typeof value !== "object" || value === null || value instanceof Real) return true;
  return !(value instanceof Date || value instanceof Extension) && extensionOf(value) !== null;
}

// --- msgpack: how keys and values of stores travel, as base64 text ------------------------------------------------------

/** Grows as it is written to. */
class Packing {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #size = 0;

  get bytes() {
    return this.#bytes.subarray(0, this.#size);
  }

  /** @throws {TypeError} The value, or something in it, has no form. */
  put(value, depth = 0) {
    if (depth > NESTED) throw new TypeError(`nested too deep: more than ${NESTED} in each other`);
    switch (typeof value) {
      case "boolean": return this.#byte(value ? 0xc3 : 0xc2);
      case "string": return this.#text(value);
      case "bigint": return this.#integer(value);
      case "number":
        if (Number.isSafeInteger(value) && !Object.is(value, -0)) return this.#small(value);
        return this.#number(0xcb, "setFloat64", 8, value);
      case "object": return value === null ? this.#byte(0xc0) : this.#object(value, depth + 1);
      default: throw new TypeError(`a store holds no ${typeof value}`);
    }
  }

  #object(value, depth) {
    if (Array.isArray(value)) return this.#array(value, depth);
    if (value instanceof Real) return this.#number(0xcb, "setFloat64", 8, Number(value));
    if (value instanceof Set) return this.#extension(EXTENSIONS.set, packed([...value], depth));
    if (value instanceof Table) return this.#extension(EXTENSIONS.table, packed([...value].flat(1), depth));
    if (value instanceof Map) return this.#map([...value], depth);
    if (value instanceof Uint8Array) {
      this.#head(value.length, [[256, 0xc4], [65_536, 0xc5], [Infinity, 0xc6]]);
      return this.#raw(value);
    }
    const found = extensionOf(value);
    if (found !== null) return this.#extension(...found);
    const above = Object.getPrototypeOf(value);
    if (above !== null && Object.getPrototypeOf(above) !== null) {
      throw new TypeError(`a store holds no ${above.constructor?.name ?? "object like this"}`);
    }
    return this.#map(Object.entries(value).filter(([, inner]) => inner !== undefined), depth);
  }

  #array(items, depth) {
    if (items.length < 16) this.#byte(0x90 | items.length);
    else this.#head(items.length, [[65_536, 0xdc], [Infinity, 0xdd]]);
    for (const item of items) this.put(item, depth);
  }

  #map(pairs, depth) {
    if (pairs.length < 16) this.#byte(0x80 | pairs.length);
    else this.#head(pairs.length, [[65_536, 0xde], [Infinity, 0xdf]]);
    for (const [key, value] of pairs) {
      this.put(key, depth);
      this.put(value, depth);
    }
  }

  #text(text) {
    const bytes = new TextEncoder().encode(checkedString(text));
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else this.#head(bytes.length, [[256, 0xd9], [65_536, 0xda], [Infinity, 0xdb]]);
    this.#raw(bytes);
  }

  #extension(code, bytes) {
    const fixed = FIXED_EXTENSIONS.indexOf(bytes.length);
    if (fixed >= 0) this.#byte(0xd4 + fixed);
    else this.#head(bytes.length, [[256, 0xc7], [65_536, 0xc8], [Infinity, 0xc9]]);
    this.#byte(code & 0xff);
    this.#raw(bytes);
  }

  /** The shortest form, as everywhere: keys are equal by their bytes. */
  #small(value) {
    if (value >= 0) {
      if (value < 0x80) return this.#byte(value);
      if (value < 0x100) return this.#number(0xcc, "setUint8", 1, value);
      if (value < 0x1_0000) return this.#number(0xcd, "setUint16", 2, value);
      if (value < 2 ** 32) return this.#number(0xce, "setUint32", 4, value);
      return this.#number(0xcf, "setBigUint64", 8, BigInt(value));
    }
    if (value >= -0x20) return this.#byte(value & 0xff);
    if (value >= -0x80) return this.#number(0xd0, "setInt8", 1, value);
    if (value >= -0x8000) return this.#number(0xd1, "setInt16", 2, value);
    if (value >= -(2 ** 31)) return this.#number(0xd2, "setInt32", 4, value);
    return this.#number(0xd3, "setBigInt64", 8, BigInt(value));
  }

  #integer(value) {
    if (Number.isSafeInteger(Number(value))) return this.#small(Number(value));
    if (value > U64_MAX || value < -(2n ** 63n)) throw new TypeError(`an integer beyond 64 bits: ${value}`);
    return value < 0n ? this.#number(0xd3, "setBigInt64", 8, value) : this.#number(0xcf, "setBigUint64", 8, value);
  }

  #head(length, marks) {
    const [[limit, mark]] = marks.filter(([each]) => length < each);
    if (limit === 256) this.#number(mark, "setUint8", 1, length);
    else if (limit === 65_536) this.#number(mark, "setUint16", 2, length);
    else this.#number(mark, "setUint32", 4, length);
  }

  #number(mark, set, size, value) {
    this.#byte(mark);
    this.#view[set](this.#room(size), value);
  }

  #byte(byte) {
    const at = this.#room(1);
    this.#bytes[at] = byte;
  }

  #raw(bytes) {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** Returns where so many bytes may be written. */
  #room(count) {
    const at = this.#size;
    this.#size += count;
    if (this.#size > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#size, 2 * this.#bytes.length));
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }
}

/** Reads one value. What ends too early throws a RangeError of the view. */
class Unpacking {
  #bytes;
  #view;
  #at = 0;

  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  take() {
    const mark = this.#number("getUint8", 1);
    if (mark < 0x80) return mark;
    if (mark < 0x90) return this.#map(mark & 0x0f);
    if (mark < 0xa0) return this.#array(mark & 0x0f);
    if (mark < 0xc0) return this.#text(mark & 0x1f);
    if (mark >= 0xe0) return mark - 0x100;
    if (mark >= 0xd4 && mark < 0xd9) return this.#extension(FIXED_EXTENSIONS[mark - 0xd4]);
    switch (mark) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xca: return real(this.#number("getFloat32", 4));
      case 0xcb: return real(this.#number("getFloat64", 8));
      case 0xcf: return numberOf(this.#number("getBigUint64", 8));
      case 0xd3: return numberOf(this.#number("getBigInt64", 8));
      default:
    }
    const [size, get, make] = MARKS[mark] ?? [];
    if (size === undefined) throw new TypeError(`no msgpack: 0x${mark.toString(16)}`);
    const found = this.#number(get, size);
    switch (make) {
      case "text": return this.#text(found);
      case "bytes": return this.#raw(found).slice();
      case "array": return this.#array(found);
      case "map": return this.#map(found);
      case "extension": return this.#extension(found);
      default: return found;
    }
  }

  #array(count) {
    const items = [];
    for (let index = 0; index < count; index += 1) items.push(this.take());
    return items;
  }

  #map(count) {
    const pairs = [];
    for (let index = 0; index < count; index += 1) pairs.push([this.take(), this.take()]);
    return pairs.every(([key]) => typeof key === "string") ? Object.fromEntries(pairs) : new Map(pairs);
  }

  #text(length) {
    return UTF8.decode(this.#raw(length));
  }

  #extension(length) {
    const code = this.#number("getInt8", 1);
    return fromExtension(code, this.#raw(length));
  }

  #raw(length) {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new RangeError("it ends too early");
    return this.#bytes.subarray(start, this.#at);
  }

  #number(get, size) {
    const found = this.#view[get](this.#at);
    this.#at += size;
    return found;
  }
}

/** First bytes with a length or number behind them: its size, how it is read, and what it is the length of. */
const MARKS = Object.freeze({
  0xcc: [1, "getUint8"], 0xcd: [2, "getUint16"], 0xce: [4, "getUint32"],
  0xd0: [1, "getInt8"], 0xd1: [2, "getInt16"], 0xd2: [4, "getInt32"],
  0xd9: [1, "getUint8", "text"], 0xda: [2, "getUint16", "text"], 0xdb: [4, "getUint32", "text"],
  0xc4: [1, "getUint8", "bytes"], 0xc5: [2, "getUint16", "bytes"], 0xc6: [4, "getUint32", "bytes"],
  0xdc: [2, "getUint16", "array"], 0xdd: [4, "getUint32", "array"],
  0xde: [2, "getUint16", "map"], 0xdf: [4, "getUint32", "map"],
  0xc7: [1, "getUint8", "extension"], 0xc8: [2, "getUint16", "extension"], 0xc9: [4, "getUint32", "extension"],
});

/** Codes of docs/data-model.md, and msgpack's own for times. */
const EXTENSIONS = Object.freeze({
  count: 1, address: 2, subnet: 3, port: 4, timestamp: 5, timespan: 6, enumeration: 7, set: 8, table: 9, time: -1,
});

const FIXED_EXTENSIONS = [1, 2, 4, 8, 16];

/** Code and payload of a typed value; null if it is none. */
function extensionOf(value) {
  if (value instanceof Count) return [EXTENSIONS.count, eightBytes("setBigUint64", BigInt(value.value))];
  if (value instanceof Address) return [EXTENSIONS.address, addressBytes(value.text)];
  if (value instanceof Subnet) return [EXTENSIONS.subnet, subnetBytes(value.text)];
  if (value instanceof Port) {
    return [EXTENSIONS.port, Uint8Array.of(value.number >> 8, value.number & 0xff, PROTOCOLS.indexOf(value.protocol))];
  }
  if (value instanceof Timestamp) return [EXTENSIONS.timestamp, eightBytes("setBigInt64", value.ns)];
  if (value instanceof Timespan) return [EXTENSIONS.timespan, eightBytes("setBigInt64", value.ns)];
  if (value instanceof Enum) return [EXTENSIONS.enumeration, new TextEncoder().encode(value.text)];
  if (value instanceof Extension) return [value.code, value.bytes];
  if (value instanceof Date) return [EXTENSIONS.time, timeBytes(value)];
  return null;
}

function fromExtension(code, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (code) {
    case EXTENSIONS.count: return new Count(view.getBigUint64(0));
    case EXTENSIONS.address: return new Address(addressText(bytes));
    case EXTENSIONS.subnet: return new Subnet(`${addressText(bytes.subarray(0, -1))}/${bytes.at(-1)}`);
    case EXTENSIONS.port: return new Port(view.getUint16(0), PROTOCOLS[bytes[2]] ?? "none");
    case EXTENSIONS.timestamp: return new Timestamp(view.getBigInt64(0));
    case EXTENSIONS.timespan: return new Timespan(view.getBigInt64(0));
    case EXTENSIONS.set: return new Set(new Unpacking(bytes).take());
    case EXTENSIONS.table: return tableOf(new Unpacking(bytes).take());
    case EXTENSIONS.time: return timeOf(view);
    case EXTENSIONS.enumeration: {
      try {
        return new Enum(UTF8.decode(bytes));
      } catch {
        return new Extension(code, bytes.slice());
      }
    }
    default: return new Extension(code, bytes.slice());
  }
}

function tableOf(items) {
  const table = new Table();
  for (let index = 0; index < items.length; index += 2) table.set(items[index], items[index + 1]);
  return table;
}

/** The time of msgpack, in the shortest of its three forms. */
function timeBytes(date) {
  if (Number.isNaN(date.getTime())) throw new TypeError("an invalid date");
  const ms = BigInt(date.getTime());
  const ns = date instanceof PreciseDate && floored(date.ns, MS_NS) === ms ? date.ns : ms * MS_NS;
  const seconds = floored(ns, SECOND_NS);
  const fraction = ns - seconds * SECOND_NS;
  if (seconds >= 0n && seconds < 2n ** 34n) {
    if (fraction === 0n && seconds < 2n ** 32n) return eightBytes("setBigUint64", seconds).subarray(4);
    return eightBytes("setBigUint64", (fraction << 34n) | seconds);
  }
  const bytes = new Uint8Array(12);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Number(fraction));
  view.setBigInt64(4, seconds);
  return bytes;
}

function timeOf(view) {
  let [seconds, fraction] = [0n, 0n];
  if (view.byteLength === 4) {
    seconds = BigInt(view.getUint32(0));
  } else if (view.byteLength === 8) {
    const whole = view.getBigUint64(0);
    [seconds, fraction] = [whole & (2n ** 34n - 1n), whole >> 34n];
  } else {
    [seconds, fraction] = [view.getBigInt64(4), BigInt(view.getUint32(0))];
  }
  const ns = seconds * SECOND_NS + fraction;
  return ns % MS_NS === 0n ? new Date(Number(ns / MS_NS)) : new PreciseDate(ns);
}

function eightBytes(set, value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer)[set](0, value);
  return bytes;
}

/** 4 bytes or 16. What knows addresses of IPv6 best is the URL of this machine. */
function addressBytes(text) {
  const parts = text.split(".");
  if (parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && part < 256)) {
    return Uint8Array.from(parts, Number);
  }
  const host = /^[\da-f:.]*:[\da-f:.]*$/i.test(text) ? hostOf(text) : null;
  if (host === null) throw new TypeError(`no address: ${text}`);
  const [front, behind = null] = host.split("::").map((part) => part.split(":").filter(Boolean));
  const gap = behind === null ? [] : Array(8 - front.length - behind.length).fill("0");
  const groups = [...front, ...gap, ...(behind ?? [])].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

/** The one short form of an address of IPv6; null if it is none. */
function hostOf(text) {
  try {
    return new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    return null;
  }
}

function addressText(bytes) {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) throw new TypeError(`an address of ${bytes.length} bytes`);
  const groups = Array.from({ length: 8 }, (_, index) => (bytes[2 * index] << 8 | bytes[2 * index + 1]).toString(16));
  return hostOf(groups.join(":"));
}

/** The address, and behind it how many bits of it count. */
function subnetBytes(text) {
  const [, address, length] = /^(.+)\/(\d{1,3})$/.exec(text) ?? [];
  if (address === undefined) throw new TypeError(`no subnet: ${text}`);
  const bytes = addressBytes(address);
  if (Number(length) > 8 * bytes.length) throw new TypeError(`no subnet: ${text}`);
  return Uint8Array.of(...bytes.map((byte, index) => {
    const bits = Math.max(0, Math.min(8, Number(length) - 8 * index));
    return byte & (0xff00 >> bits);
  }), Number(length));
}

/** A number where that is exact, else a BigInt. */
function numberOf(whole) {
  const number = Number(whole);
  return Number.isSafeInteger(number) ? number : whole;
}

function real(number) {
  return Number.isSafeInteger(number) && !Object.is(number, -0) ? new Real(number) : number;
}

/** The quotient, rounded down. */
function floored(whole, by) {
  const rest = ((whole % by) + by) % by;
  return (whole - rest) / by;
}

function checkedString(text) {
  if (typeof text !== "string" || /\p{Cs}/u.test(text)) throw new TypeError("no text, or one with lone surrogates");
  return text;
}

function packed(value, depth = 0) {
  const packing = new Packing();
  packing.put(value, depth);
  return packing.bytes;
}

/** A key or value as it travels. */
function base64Of(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8_192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8_192));
  }
  return btoa(text);
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function sent(value) {
  return base64Of(packed(value));
}

/** The value that has come as base64 of msgpack. */
function received(text) {
  if (text === null) return null;
  try {
    return new Unpacking(bytesOf(text)).take();
  } catch (error) {
    throw new HubError(1007, `a value of a store is not understood: ${error.message}`);
  }
}

// --- small things -------------------------------------------------------------------------------------------------------

function deferred() {
  const it = {};
  it.promise = new Promise((resolve, reject) => Object.assign(it, { resolve, reject }));
  it.settle = (error, value) => (error ? it.reject(error) : it.resolve(value));
  return it;
}

/** A rejection that nobody awaits is no error of the program: it is told by an event as well. */
function handled(it) {
  it.promise.catch(() => {});
  return it;
}

function endpoint(url) {
  const target = new URL(url, import.meta.url);
  target.protocol = target.protocol.replace(/^http/, "ws");
  target.hash = "";
  if (target.pathname === "/") target.pathname = "/v1/hub";
  if (!/^wss?:$/.test(target.protocol)) throw new TypeError(`not the URL of a hub: ${target}`);
  return target.href;
}

function checkedText(text, what) {
  if (typeof text !== "string") throw new TypeError(`a ${what} is text, not ${typeof text}`);
  if (/[\p{Cc}\p{Cs}]/u.test(text)) {
    throw new TypeError(`a ${what} has neither control characters nor lone surrogates`);
  }
  if (3 * text.length > TOPIC_BYTES && new TextEncoder().encode(text).length > TOPIC_BYTES) {
    throw new TypeError(`a ${what} is at most ${TOPIC_BYTES} bytes long`);
  }
  return text;
}

function checkedTopic(topic) {
  if (topic === "") throw new TypeError("a topic is not empty");
  return checkedText(topic, "topic");
}

function checkedPrefixes(prefixes) {
  const list = [...new Set(Array.isArray(prefixes) ? prefixes : [prefixes])];
  if (list.length === 0) throw new TypeError("no prefix; the empty text matches every topic");
  return list.map((prefix) => checkedText(prefix, "prefix"));
}

function wantedPrefixes(prefixes) {
  return { keys: checkedPrefixes(prefixes), rule: null };
}

/** What is subscribed to: prefixes, or one rule, whose key is no topic's beginning. */
function wanted(what) {
  if (what === null || typeof what !== "object" || Array.isArray(what)) return wantedPrefixes(what);
  const { labels = [], prefix = "", sender = "", to = "" } = what;
  const rule = to === ""
    ? { labels: checkedLabels(labels), prefix: checkedText(prefix, "prefix"), sender: checkedText(sender, "sender") }
    : { to: checkedText(to, "name") };
  if (!to && rule.labels.length === 0 && sender === "") {
    throw new TypeError("a rule has labels or a sender; without them, subscribe to its prefix");
  }
  return { keys: [`\0${JSON.stringify(rule)}`], rule };
}

function checkedLabels(labels) {
  if (typeof labels === "string") throw new TypeError("labels are a list");
  return [...new Set(labels)].map((label) => checkedText(label, "label")).sort();
}

/** Fields of a publish message behind its topic. */
function textBeside(labels = [], sender = "", to = "") {
  if (labels.length === 0 && !sender && !to) return "";
  const list = checkedLabels(labels);
  const fields = { ...(list.length > 0 && { labels: list }), ...(sender && { sender }), ...(to && { to }) };
  return `,${JSON.stringify(fields).slice(1, -1)}`;
}

function isMatch(rule, topic, { labels, sender, to }) {
  if (rule.to) return rule.to === to;
  return rule.labels.every((label) => labels.includes(label)) && topic.startsWith(rule.prefix)
    && (rule.sender === "" || rule.sender === sender);
}

/** The message that tells the hub of entries of one kind. */
function change(entries, ofPrefixes, ofRules) {
  if (entries[0].rule !== null) return { type: ofRules, rules: entries.map(({ rule }) => rule) };
  return { type: ofPrefixes, prefixes: entries.map(({ prefix }) => prefix) };
}

/** Where in the journal: an offset or, where it is given, a time. */
function place(start, time) {
  if (time !== undefined) return { time_ms: Number(time) };
  if (!Number.isSafeInteger(start) || start < 0) throw new TypeError(`an offset is a whole number from 0 on, not ${start}`);
  return { start };
}

/** Whose journal is read: that of the hub that is connected, or of another one. Its id is told with the first piece. */
function whose(hub) {
  return hub === undefined || hub === "" ? { journal: "" } : { journal: "", hub: String(hub) };
}

/** Whether a subscription has no place in a journal to begin at. */
function isLive({ fromOffset, fromTime, hub, recorded }) {
  if (fromOffset !== undefined || fromTime !== undefined || recorded) return false;
  if (hub !== undefined && hub !== "") throw new TypeError("hub: give fromOffset, fromTime or recorded as well");
  return true;
}

/** Let an order go on behind a piece, in the same journal. */
function goOn(order, found) {
  order.start = found.next;
  order.journal = found.journal ?? order.journal;
  delete order.time_ms;
}

function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}

/** A record as the hub has sent it: without what was not asked for. */
function recordOf({ time_ms, ...fields }) {
  return time_ms === undefined ? fields : { time: new Date(time_ms), ...fields };
}

function jsonOf(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return text;
}

/** How long a hub asks to wait before coming back, milliseconds; null if the reason of its close does not say so. */
function retryAfterMs(code, reason) {
  const found = NOT_NOW.includes(code) ? /; retry after (\d{1,6}(?:\.\d{1,3})?) s$/.exec(reason) : null;
  return found && Math.min(Number(found[1]) * 1_000, RETRY_MS);
}

function now() {
  return performance.now();
}

function reportUncaught(error) {
  (globalThis.reportError ?? console.error)(error);
}
