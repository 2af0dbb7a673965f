/**
 * Talk to a topichub from a browser or from Node, over the WebSocket protocol `hub.v1.json`.
 *
 *     import { connect } from "http://127.0.0.1:7401/hub.js";
 *     const client = connect("ws://127.0.0.1:7401/v1/hub", { name: "my-page" });
 *     client.subscribe("/zeek/", ({ topic, value }) => console.log(topic, value));
 *     client.publish("/demo/hello", { from: "a browser" });
 *
 * Owner of state: the `Client`. It owns one `Filter` (what is subscribed), one `Outbox` (what waits to be sent) and at
 * most one socket: a new one is made only after the last was let go, and events of a socket let go are ignored.
 *
 * Invariants: what is published leaves in the order of the calls, over all topics. A prefix is sent to the hub once
 * however many subscriptions share it. After `close()` nothing is sent, called or opened again.
 *
 * Delivery: at most once. What is published without a connection waits, bounded, for the next one; what was given to a
 * socket that then breaks may be lost, and is never sent twice: `{confirm: true}` tells which.
 *
 * Cost: one JSON text a batch, one map lookup a batch to find its subscriptions, one call a message.
 *
 * Not here: the binary form `hub.v1.msgpack`, requests, reading the journal. One file on purpose: one address to load,
 * one file to copy.
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

/** How long `close()` waits for the hub's answer, milliseconds. */
const CLOSE_MS = 2_000;

const DEFAULTS = Object.freeze({
  name: undefined,
  queue: undefined,
  outboundBytes: 16 * 1024 * 1024, // the largest message that a hub takes must fit
  silenceMs: 20_000, // the hub's own figures
  answerMs: 10_000,
  backoff: Object.freeze({ baseMs: 100, capMs: 30_000, random: Math.random }),
});

const STREAM_DEFAULTS = Object.freeze({ bufferMessages: 8_192, bufferBytes: 64 * 1024 * 1024 });

/** Something that the hub or this client refused. `code` is a WebSocket close code, the text names the cause. */
export class HubError extends Error {
  constructor(code, text) {
    super(text);
    this.name = "HubError";
    this.code = code;
  }
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
  #receivedAt = 0;
  #pingedAt = 0; // 0: no answer is due
  #spared = false;
  #listeners = new Map();
  #filter = new Filter();
  #outbox;
  #flushScheduled = false;
  #lastRequest = 0;
  #requests = new Map(); // request → settle(error or null, lost)
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
   * Survives reconnects. When the hub refuses a prefix the subscription ends: `confirmed` rejects and `error` is told.
   */
  subscribe(prefixes, callback) {
    if (typeof callback !== "function") throw new TypeError("the callback is no function");
    return this.#subscribe(prefixes, (message) => callback(message), () => {});
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
    stream.subscription = this.#subscribe(
      prefixes, (message, size) => stream.push(message, size), (error) => stream.end(error),
    );
    return stream;
  }

  /**
   * Publish one value; values published to one topic in one turn leave as one batch.
   *
   * @returns {Promise<void>|undefined} With `confirm`, a promise that the hub has taken it; await it now and then to
   *     publish no faster than the hub takes.
   * @throws {HubError} 1013: the outbound buffer is full. 1009: larger than the hub takes. 1000: closed. (Or rejects.)
   * @throws {TypeError} The topic is none, or the value has no JSON form. (Or rejects.)
   */
  publish(topic, value, { confirm = false } = {}) {
    const waiter = confirm ? deferred() : null;
    try {
      this.#assertNotClosed();
      const text = jsonOf(value);
      this.#assertFits(checkedTopic(topic), text);
      this.#outbox.add(topic, text, waiter, this.#socket?.bufferedAmount ?? 0);
    } catch (error) {
      if (!confirm) throw error;
      return Promise.reject(error);
    }
    this.#counters.publishedMessages += 1;
    if (!this.#flushScheduled) {
      this.#flushScheduled = true;
      queueMicrotask(() => this.#flush());
    }
    return waiter?.promise;
  }

  /** Counters and gauges as they are now, frozen. `droppedMessages` were lost in the hub, `skippedMessages` here. */
  statistics() {
    return Object.freeze({
      state: this.#state, hub: this.#welcome?.hub ?? null, ...this.#counters,
      prefixes: this.#filter.entries.size, unconfirmed: this.#requests.size,
      outboundBytes: this.#outbox.size + (this.#socket?.bufferedAmount ?? 0),
    });
  }

  /** Send what is ready to be sent, then close, for good. Waits for the hub's answer, at most 2 s. */
  close() {
    if (this.#state === "closed") return this.#closed.promise;
    this.#flush();
    this.#state = "closed";
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#watchTimer);
    globalThis.removeEventListener?.("online", this.#wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#wake);
    const error = new HubError(1000, "this client is closed");
    this.#counters.discardedMessages += this.#outbox.discard(error);
    this.#settleAll(error);
    this.#ready.reject(error);
    this.#ready = handled({ promise: Promise.reject(error) });
    for (const subscription of this.#filter.clear()) subscription.ended(error);
    this.#closeSocket();
    return this.#closed.promise;
  }

  // --- the connection: one socket at a time -------------------------------------------------------------------------

  #open() {
    const socket = new this.#WebSocket(this.#url, [SUBPROTOCOL]);
    this.#socket = socket;
    this.#state = "connecting";
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
    this.#emit("close", code, reason);
    this.#retry();
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
  #retry() {
    if (this.#state !== "waiting") return; // a listener closed the client
    const { baseMs, capMs, random } = this.#options.backoff;
    const delayMs = random() * Math.min(capMs, baseMs * 2 ** this.#attempts);
    this.#attempts += 1;
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
      case "confirmed": return this.#settle(message.request, null);
      case "dropped": return this.#dropped(message.count);
      case "error": return this.#refused(message);
      case "welcome": return this.#welcomed(message);
      default: return checkedText(message.type, "type of a message"); // pong, and what later hubs may say
    }
  }

  #deliver({ topic, values }, characters) {
    this.#counters.receivedBatches += 1;
    this.#counters.receivedMessages += values.length;
    const size = Math.ceil(characters / values.length);
    for (const subscription of this.#filter.route(topic)) {
      for (const value of values) {
        if (!subscription.active) break;
        try {
          subscription.callback({ topic, value }, size);
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

  #refused({ request, code, text }) {
    const error = new HubError(code, text);
    if (this.#settle(request, error)) return;
    this.#report(error);
    if (this.#helloPending) this.#granted(); // what was wished for is not to be had: go on with the defaults
  }

  #welcomed(message) {
    const first = this.#welcome === null;
    this.#welcome = message;
    if (!first) return this.#granted();
    const { name, queue } = this.#options;
    this.#state = "open";
    this.#openedAt = now();
    this.#counters.connections += 1;
    this.#outbox.limitBatches(message.frame);
    this.#helloPending = name !== undefined || queue !== undefined;
    if (this.#helloPending) this.#send({ type: "hello", name, queue });
    this.#sendSubscribe([...this.#filter.entries.values()]);
    this.#flush();
    return this.#helloPending ? undefined : this.#granted();
  }

  #granted() {
    this.#helloPending = false;
    this.#ready.resolve(this.#welcome);
    this.#emit("open", this.#welcome);
  }

  // --- what we say --------------------------------------------------------------------------------------------------

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #flush() {
    this.#flushScheduled = false;
    this.#outbox.seal();
    if (this.#state !== "open" || this.#socket.readyState !== OPEN) return;
    for (const { text, waiters } of this.#outbox.take()) {
      this.#counters.publishedBatches += 1;
      if (waiters.length === 0) {
        this.#socket.send(`${text}}`);
        continue;
      }
      const request = this.#nextRequest((error) => waiters.forEach((waiter) => waiter.settle(error)));
      this.#socket.send(`${text},"request":${request}}`);
    }
  }

  #subscribe(prefixes, callback, ended) {
    this.#assertNotClosed();
    const subscription = new Subscription(checkedPrefixes(prefixes), callback, ended, (it) => this.#unsubscribe(it));
    const fresh = this.#filter.add(subscription);
    if (this.#state === "open" && fresh.length > 0) {
      this.#flush(); // what was published before the subscription is before it on the wire too
      this.#sendSubscribe(fresh);
    }
    return subscription;
  }

  #sendSubscribe(entries) {
    for (let start = 0; start < entries.length; start += SUBSCRIBE_PREFIXES) {
      const part = entries.slice(start, start + SUBSCRIBE_PREFIXES);
      const request = this.#nextRequest((error, lost) => {
        if (!lost) this.#subscribed(part, error);
      });
      this.#send({ type: "subscribe", prefixes: part.map((entry) => entry.prefix), request });
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
    this.#send({ type: "unsubscribe", prefixes: entries.map((entry) => entry.prefix), request });
    return done.promise;
  }

  #nextRequest(settle) {
    this.#lastRequest += 1;
    if (settle) this.#requests.set(this.#lastRequest, settle);
    return this.#lastRequest;
  }

  #settle(request, error) {
    const settle = this.#requests.get(request);
    if (settle === undefined) return false;
    this.#requests.delete(request);
    settle(error, false);
    return true;
  }

  #settleAll(error) {
    const pending = [...this.#requests.values()];
    this.#requests.clear();
    for (const settle of pending) settle(error, true);
  }

  #assertNotClosed() {
    if (this.#state === "closed") throw new HubError(1000, "this client is closed");
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

  constructor(prefixes, callback, ended, leave) {
    this.prefixes = Object.freeze(prefixes);
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

/** Which subscriptions hold which prefix, and which of them want a topic. Counts references; knows no socket. */
class Filter {
  entries = new Map(); // prefix → {prefix, subscriptions, confirmed}
  #lengths = new Map(); // length of a prefix → how many have it
  #routes = new Map(); // topic → subscriptions, a cache

  /** Returns the entries that are new and so have to be told to the hub. */
  add(subscription) {
    this.#routes.clear();
    const fresh = [];
    const held = subscription.prefixes.map((prefix) => {
      let entry = this.entries.get(prefix);
      if (entry === undefined) {
        entry = { prefix, subscriptions: new Set(), confirmed: deferred() };
        this.entries.set(prefix, entry);
        this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1);
        fresh.push(entry);
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
    for (const prefix of subscription.prefixes) {
      const entry = this.entries.get(prefix);
      if (!entry?.subscriptions.delete(subscription) || entry.subscriptions.size > 0) continue;
      this.entries.delete(prefix);
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
}

/** Values on their way out: sealed frames, oldest first, and the open batch; bounded with the bytes in the socket. */
class Outbox {
  size = 0;
  #limitBytes;
  #frames = []; // {text: a publish message without its last brace, waiters, count}
  #batch = null;
  #batchCharacters = BATCH_CHARACTERS;

  constructor(limitBytes) {
    this.#limitBytes = limitBytes;
  }

  /** An eighth of what the hub takes leaves room for characters of three bytes, and for the longest topic. */
  limitBatches(frameBytes) {
    this.#batchCharacters = Math.min(BATCH_CHARACTERS, frameBytes / 8);
  }

  add(topic, text, waiter, socketBytes) {
    const cost = text.length + (waiter ? OBJECT_BYTES : 0);
    if (this.size + socketBytes + cost > this.#limitBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#limitBytes})`);
    }
    if (this.#batch && (this.#batch.topic !== topic || this.#batch.characters + text.length > this.#batchCharacters)) {
      this.seal();
    }
    if (this.#batch === null) {
      this.#batch = { topic, texts: [], waiters: [], characters: 0 };
      this.size += topic.length + OBJECT_BYTES;
    }
    this.#batch.texts.push(text);
    this.#batch.characters += text.length + 1;
    if (waiter) this.#batch.waiters.push(waiter);
    this.size += cost;
  }

  /** Ends the open batch: what comes later is a message of its own. */
  seal() {
    if (this.#batch === null) return;
    const { topic, texts, waiters } = this.#batch;
    const text = `{"type":"publish","topic":${JSON.stringify(topic)},"values":[${texts.join(",")}]`;
    this.#frames.push({ text, waiters, count: texts.length });
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

  /** What is buffered can still be taken; then the iteration ends, with the error if the hub refused us. */
  end(error) {
    this.#ended = true;
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
    if (this.#head === this.#buffer.length || this.#head > this.#options.bufferMessages) {
      this.#buffer = this.#buffer.slice(this.#head);
      this.#head = 0;
    }
    return message;
  }
}

function deferred() {
  const it = {};
  it.promise = new Promise((resolve, reject) => Object.assign(it, { resolve, reject }));
  it.settle = (error) => (error ? it.reject(error) : it.resolve());
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

function jsonOf(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return text;
}

function now() {
  return performance.now();
}

function reportUncaught(error) {
  (globalThis.reportError ?? console.error)(error);
}
