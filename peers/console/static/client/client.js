/**
 * The client: its connection, and what travels over it. What it can do stands at the head of hub.js.
 *
 * ```
 * connecting ── welcome ──▶ open ── lost ──▶ waiting ── in time ──▶ connecting      closed: by `close`, or refused for good
 * ```
 *
 * Owner of the state: `Client`. It owns one `Filter` (what is subscribed), one `Outbox` (what waits to be sent), one `Requests` (what is
 * asked), one `Services` (what is answered) and at most one socket: a new one is made only after the last was let go, and
 * events of a socket let go are ignored. Not here: following a journal (`following.js`), consuming
 * (`consumers.js`), tokens (`tokens.js`), and whether the hub is still there (`silence.js`).
 */

import { checkedPrefixes, checkedText, checkedTopic, jsonOf } from "./checks.js";
import { consumed } from "./consumers.js";
import { HubError } from "./errors.js";
import { Following } from "./following.js";
import { END_OF_TIME_MS, goOn, isLive, place, recordOf, whose } from "./journal.js";
import { MessageStream, STREAM_DEFAULTS } from "./message_stream.js";
import { ClaimedName, NAMES_PAGE } from "./names.js";
import { Outbox } from "./outbox.js";
import { REQUEST_MS, Requests } from "./requests.js";
import { textBeside, wanted, wantedPrefixes } from "./rules.js";
import { Service, Services } from "./services.js";
import { Silence } from "./silence.js";
import { Store } from "./stores/store.js";
import { change, Filter, Subscription } from "./subscriptions.js";
import { FORBIDDEN, freshToken, NOT_RECOGNISED, Renewal } from "./tokens.js";
import { deferred, handled, now } from "./waiting.js";

/**
 * @import {
 *   Backoff, Beside, ConsumedMessage, ConsumeOptions, Events, From, JournalRecord, KnownName, Message, Options, ReadOptions,
 *   RequestOptions, Socket, Statistics, StreamOptions, Wanted, Welcome,
 * } from "../hub.js"
 * @import { Client as DeclaredClient } from "../hub.js"
 * @import { JournalLine } from "./following.js"
 * @import { Found, Order } from "./journal.js"
 * @import { Standing } from "./names.js"
 * @import { Deliver, Entry } from "./subscriptions.js"
 * @import { Deferred } from "./waiting.js"
 *
 * @typedef {(error: Error | null, lost: boolean, offset?: any) => void} Settle Called with what has become of a request: `lost` says that
 *   the connection was.
 *
 * @typedef {"connecting" | "open" | "waiting" | "closed"} State
 *
 * @typedef {ReturnType<typeof setTimeout>} Timer
 */

const SUBPROTOCOL = "hub.v1.json";

/** `readyState` of a socket that sends; the name is not on every implementation of WebSocket. */
const OPEN = 1;

/** Prefixes of one subscribe message; with prefixes of 1 KiB far below the 16 MiB that a hub takes. */
const SUBSCRIBE_PREFIXES = 1_000;

/** A connection that lived this long was a good one: the backoff starts from its base again, milliseconds. */
const SETTLED_MS = 5_000;

/** Codes of a hub that may say when to come back: it stops, or is full. */
const NOT_NOW = [1001, 1013];

/** Nobody waits longer than this because a hub has asked for it, milliseconds. */
const RETRY_MS = 3_600_000;

/** How long `close()` waits for the hub's answer, milliseconds. */
const CLOSE_MS = 2_000;

const DEFAULTS = Object.freeze({
  name: undefined,
  queue: undefined,
  token: undefined,
  narrow: undefined,
  sample: undefined,
  outboundBytes: 16 * 1024 * 1024, // the largest message that a hub takes must fit
  silenceMs: 20_000, // the hub's own figures
  answerMs: 10_000,
  backoff: Object.freeze({ baseMs: 100, capMs: 30_000, random: Math.random }),
});

/** @implements {DeclaredClient} */
export class Client {
  #url;
  /** @type {Required<Pick<Options, "outboundBytes" | "silenceMs" | "answerMs">> & Options & {backoff: Required<Backoff>}} */
  #options;
  #WebSocket;
  /** @type {State} */
  #state = "connecting";
  /** @type {Socket | null} */
  #socket = null;
  /** @type {Welcome | null} */
  #welcome = null;
  #helloPending = false;
  #openedAt = 0;
  #attempts = 0;
  /** @type {Timer | undefined} */
  #retryTimer;
  #renewal;
  #silence;
  #dialled = 0; // how often a connection was begun: what an earlier attempt was given comes too late
  /** @type {string | undefined} For the `hello` of this connection; forgotten with it. */
  #token;
  /** @type {number | undefined} Of the answer that is being looked at: how many seconds a fresh token holds. */
  #until;
  #spentToken = false; // the hub did not know the last token, and has not taken another since
  /** @type {Error | null} Why the client is closed. */
  #ended = null;
  /** @type {Map<keyof Events, Set<(...details: any[]) => void>>} */
  #listeners = new Map();
  #filter = new Filter();
  #outbox;
  #asked;
  #services;
  /** @type {Map<string, ClaimedName>} By name. */
  #names = new Map();
  #flushScheduled = false;
  #lastRequest = 0;
  /** @type {Map<number, Settle>} By number. */
  #requests = new Map();
  /** @type {Map<number, {order: Order, answer: Deferred<Found>}>} By number: asked again over the next connection. */
  #fetches = new Map();
  /** @type {number | undefined} Offset of the journal at which the subscription that was confirmed last begins. */
  #began;
  /** @type {Set<Client>} Of subscriptions that begin in the journal. */
  #lines = new Set();
  /** @type {Deferred<Welcome>} */
  #ready = handled(deferred());
  /** @type {Deferred<void>} */
  #closed = deferred();
  #wake = () => this.#woken();
  #counters = {
    connections: 0, receivedMessages: 0, receivedBatches: 0, droppedMessages: 0, sampledOutMessages: 0, skippedMessages: 0,
    publishedMessages: 0, publishedBatches: 0, discardedMessages: 0, errors: 0,
  };

  /**
   * @param {string} url
   * @param {Options} options
   */
  constructor(url, options) {
    this.#url = url;
    this.#options = { ...DEFAULTS, ...options, backoff: { ...DEFAULTS.backoff, ...options.backoff } };
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no WebSocket here: pass one as the option WebSocket");
    this.#renewal = new Renewal(() => this.#renew(), this.#options.backoff.random);
    this.#silence = new Silence(this.#options, () => this.#send({ type: "ping", request: this.#nextRequest() }), (reason) => {
      if (this.#socket !== null) this.#abandon(this.#socket, reason);
    });
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

  /**
   * Call `listener` at each `open`, `close`, `dropped`, `sampled`, `error` or `reconnecting`; returns what ends that.
   *
   * @template {keyof Events} Event
   * @param {Event} event
   * @param {Events[Event]} listener
   * @returns {() => void}
   */
  on(event, listener) {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
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
   *
   * @param {Wanted} prefixes
   * @param {(message: Message) => void} callback
   * @param {From} [from]
   * @returns {Subscription}
   */
  subscribe(prefixes, callback, from = {}) {
    if (typeof callback !== "function") throw new TypeError("the callback is no function");
    const call = (/** @type {Message} */ message) => callback(message);
    if (isLive(from)) return this.#subscribe(prefixes, call, () => {});
    return this.#follow(prefixes, from, call, () => {}, () => undefined);
  }

  /**
   * Iterate over the messages under the prefixes: `for await (const message of client.messages("/zeek/"))`.
   *
   * What is not taken in time waits in a buffer bounded in messages and bytes; when it is full the oldest go, counted
   * in `dropped` of the iterator and in `statistics().skippedMessages`. Leaving the loop unsubscribes.
   *
   * @param {Wanted} prefixes
   * @param {StreamOptions} [options]
   * @returns {MessageStream}
   */
  messages(prefixes, options = {}) {
    const stream = new MessageStream({ ...STREAM_DEFAULTS, ...options }, (count) => {
      this.#counters.skippedMessages += count;
    });
    const push = (/** @type {Message} */ message, /** @type {number} */ size) => stream.push(message, size);
    const end = (/** @type {Error | null} */ error) => stream.end(error);
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
   * @param {string | readonly string[]} [prefixes]
   * @param {ReadOptions} [options]
   * @returns {AsyncGenerator<JournalRecord, void>}
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
   * @param {string} name
   * @param {string | readonly string[]} [prefixes]
   * @param {ConsumeOptions} [options]
   * @returns {AsyncGenerator<ConsumedMessage, never>}
   */
  async *consume(name, prefixes = [], options = {}) {
    /** @type {import("./consumers.js").Ask} */
    const ask = (topic, value, timeoutMs) => this.request(topic, value, { timeoutMs });
    return yield* consumed(ask, () => this.#state === "closed", name, prefixes, options);
  }

  /**
   * Publish one value; values published to one topic in one turn leave as one batch.
   *
   * It may bear `labels` (at most 32), the name of its `sender` (which this client has claimed), and a name that it is sent
   * `to`: then its owner alone gets it.
   *
   * With `confirm` it returns a promise that the hub has taken it; await it now and then to publish no faster than the hub
   * takes. With `confirm: "recorded"`, a promise of its offset in the journal.
   *
   * @throws {HubError} 1013: the outbound buffer is full. 1009: larger than the hub takes. 1000: closed. (Or rejects.)
   * @throws {TypeError} The topic is none, or the value has no JSON form. (Or rejects.)
   *
   * @overload
   * @param {string} topic
   * @param {unknown} value
   * @param {Beside & {confirm: true}} options
   * @returns {Promise<void>}
   */
  /**
   * @overload
   * @param {string} topic
   * @param {unknown} value
   * @param {Beside & {confirm: "recorded"}} options
   * @returns {Promise<number>}
   */
  /**
   * @overload
   * @param {string} topic
   * @param {unknown} value
   * @param {Beside & {confirm?: false}} [options]
   * @returns {void}
   */
  /**
   * @param {string} topic
   * @param {unknown} value
   * @param {Beside & {confirm?: boolean | "recorded"}} [options]
   * @returns {Promise<any> | undefined}
   */
  publish(topic, value, { confirm = false, labels, sender, to } = {}) {
    /** @type {Deferred<any> | null} */
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
   * The topic goes to the service with the longest prefix of it; with `service`, to whoever bears that name.
   *
   * @throws {RequestError} There is no reply; its `status` says why. (All of these: rejects.)
   * @throws {HubError} 1006: the connection was lost, nobody knows. 1013: the outbound buffer is full. 1000: closed.
   * @throws {TypeError} The topic is none, or the value has no JSON form.
   * @param {string} topic
   * @param {unknown} value
   * @param {RequestOptions} [options]
   * @returns {Promise<any>}
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
   * @param {string | readonly string[]} prefixes
   * @param {(request: Message) => unknown} answer
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
   * The `labels` are announced with it; with `queue` it waits where somebody else owns it. `confirmed` is a promise that it is
   * owned, or waits; it rejects where the hub refuses.
   *
   * @throws {TypeError} The name is none, or this client has claimed it already.
   * @param {string} name
   * @param {{labels?: readonly string[], queue?: boolean}} [options]
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

  /**
   * List the service names that begin with a prefix, as `{name, labels, owner, hub}`. Rejects as `request` does.
   *
   * @returns {Promise<KnownName[]>}
   */
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
   * @param {string} name
   * @param {{timeoutMs?: number}} [options]
   */
  store(name, { timeoutMs = REQUEST_MS } = {}) {
    return new Store(name, {
      request: (topic, value) => this.request(topic, value, { timeoutMs }),
      publish: (topic, value) => this.publish(topic, value),
      subscribe: (prefix, callback, ended) => this.#subscribe(prefix, callback, ended),
      on: (event, listener) => this.on(event, listener),
    });
  }

  /**
   * Counters and gauges as they are now, frozen. `droppedMessages` were lost in the hub, `skippedMessages` here.
   *
   * @returns {Statistics}
   */
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

  /**
   * Do nothing any more, and tell all who wait why.
   *
   * @param {Error} error
   */
  #cease(error) {
    this.#state = "closed";
    this.#ended = error;
    clearTimeout(this.#retryTimer);
    this.#silence.stop();
    this.#renewal.stop();
    globalThis.removeEventListener?.("online", this.#wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#wake);
    this.#counters.discardedMessages += this.#outbox.discard(error);
    this.#settleAll(error);
    this.#asked.failAll(error);
    this.#services.close(error);
    for (const claimed of this.#names.values()) claimed.end(error);
    this.#names.clear();
    this.#ready.reject(error);
    this.#ready = handled(deferred());
    this.#ready.reject(error);
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
    freshToken(token, this.#options.answerMs).then((fresh) => {
      if (number === this.#dialled && this.#state === "connecting") this.#dial(fresh);
    }, (error) => {
      if (number !== this.#dialled || this.#state !== "connecting") return;
      this.#state = "waiting";
      this.#report(error);
      this.#retry();
    });
    return undefined;
  }

  /** @param {string} [token] */
  #dial(token) {
    this.#token = token === "" ? undefined : token;
    const socket = new this.#WebSocket(this.#url, [SUBPROTOCOL]);
    this.#socket = socket;
    socket.onmessage = (/** @type {{data: string}} */ event) => this.#received(event.data);
    socket.onclose = (/** @type {{code: number, reason: string}} */ event) => this.#lost(socket, event.code, event.reason);
    // Some implementations tell of a failed attempt by `error` alone; where `close` follows it comes first.
    socket.onerror = () => setTimeout(() => this.#abandon(socket, "connection failed"), 0);
    this.#silence.begin();
  }

  /**
   * @param {Socket} socket
   * @param {number} code
   * @param {string} reason
   */
  #lost(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#release(socket);
    this.#silence.stop();
    this.#renewal.stop();
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

  /**
   * Whether the hub would say the same again. With a function for tokens, 4401 is worth one more attempt.
   *
   * @param {number} code
   */
  #isFinal(code) {
    if (code !== NOT_RECOGNISED) return code === FORBIDDEN;
    const isSpent = this.#spentToken || typeof this.#options.token !== "function";
    this.#spentToken = true;
    return isSpent;
  }

  /** @param {Error} error */
  #giveUp(error) {
    if (this.#state === "closed") return; // a listener has closed the client
    this.#cease(error);
    this.#closed.resolve();
    this.#report(error);
  }


  /** @param {number} [until] */
  #renewBefore(until) {
    if (until !== undefined && typeof this.#options.token === "function") this.#renewal.before(until);
  }

  #renew() {
    const { token, answerMs } = this.#options;
    if (typeof token !== "function") return;
    const socket = this.#socket;
    const failed = (/** @type {unknown} */ error) => {
      if (socket !== this.#socket || this.#state !== "open") return;
      this.#report(error);
      this.#renewal.again();
    };
    freshToken(token, answerMs).then((fresh) => {
      if (socket !== this.#socket || this.#state !== "open") return;
      const request = this.#nextRequest((error, lost) => {
        if (lost) return;
        if (error === null) this.#renewBefore(this.#until);
        else failed(error);
      });
      this.#send({ type: "token", token: fresh, request });
    }, failed);
  }

  /**
   * @param {Socket} socket
   * @param {string} reason
   */
  #abandon(socket, reason) {
    if (socket !== this.#socket) return;
    this.#lost(socket, 1006, reason);
    socket.close();
  }

  /** @param {Socket} socket */
  #release(socket) {
    this.#socket = null;
    socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
  }

  /**
   * Full jitter: anything between nothing and the doubling bound, so that a thousand clients do not return as one.
   *
   * @param {number | null} [askedMs]
   */
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
    } else if (this.#state === "open") {
      this.#silence.ask();
    }
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
    /** @type {unknown} */
    const timer = setTimeout(() => this.#abandon(socket, "no answer to the close"), CLOSE_MS);
    /** @type {{unref?: () => void}} */ (timer).unref?.(); // in Node it holds nobody up
  }

  // --- what the hub says --------------------------------------------------------------------------------------------

  /** @param {string} text */
  #received(text) {
    this.#silence.heard();
    try {
      this.#understood(JSON.parse(text), text.length);
    } catch (error) {
      this.#report(new HubError(1007, `the hub sent something not understood: ${error instanceof Error ? error.message : error}`));
    }
  }

  /**
   * @param {any} message
   * @param {number} characters
   */
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
      case "sampled": return this.#sampled(message.count);
      case "reply": return this.#asked.answer(message);
      case "request": return this.#services.receive(message);
      case "name": return this.#nameStands(message);
      case "error": return this.#refused(message);
      case "welcome": return this.#welcomed(message);
      default: return checkedText(message.type, "type of a message"); // pong, and what later hubs may say
    }
  }

  /**
   * @param {{topic: string, values: unknown[], labels?: string[], sender?: string, to?: string}} batch
   * @param {number} characters
   */
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

  /** @param {number} count */
  #dropped(count) {
    this.#counters.droppedMessages += count;
    this.#emit("dropped", count);
  }

  /** @param {number} count */
  #sampled(count) {
    this.#counters.sampledOutMessages += count;
    this.#emit("sampled", count);
  }

  /** @param {{request: number, code: number, text: string, offset?: number, about?: string}} refusal */
  #refused({ request, code, text, offset, about }) {
    const error = new HubError(code, text, offset);
    if (about === "request" && this.#asked.refuse(request, error)) return;
    if (this.#settle(request, error) || this.#unfetched(request, error)) return;
    this.#report(error);
    if (this.#helloPending) this.#granted(); // what was wished for is not to be had: go on with the defaults
  }

  /** @param {Welcome} message */
  #welcomed(message) {
    const first = this.#welcome === null;
    this.#welcome = message;
    if (!first) return this.#granted();
    const { name, queue, narrow, sample } = this.#options;
    const token = this.#token;
    this.#token = undefined;
    this.#state = "open";
    this.#openedAt = now();
    this.#counters.connections += 1;
    this.#outbox.limitBatches(message.frame);
    // To a hub with users a client that has said nothing is a stranger, whose messages must be small.
    this.#helloPending = [name, queue, token, narrow, sample, message.strangers].some((reason) => reason !== undefined);
    if (this.#helloPending) this.#send({ type: "hello", name, queue, token, narrow, sample });
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
    const welcome = /** @type {Welcome} */ (this.#welcome);
    this.#renewBefore(welcome.until);
    this.#ready.resolve(welcome);
    this.#emit("open", welcome);
  }

  // --- what we say --------------------------------------------------------------------------------------------------

  /** @param {object} message */
  #send(message) {
    this.#socket?.send(JSON.stringify(message));
  }

  #scheduleFlush() {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush() {
    this.#flushScheduled = false;
    this.#outbox.seal();
    const socket = this.#socket;
    if (this.#state !== "open" || socket === null || socket.readyState !== OPEN) return;
    for (const { text, waiters, recorded } of this.#outbox.take()) {
      this.#counters.publishedBatches += 1;
      if (waiters.length === 0) {
        socket.send(`${text}}`);
        continue;
      }
      const request = this.#nextRequest((error, _lost, offset) => waiters.forEach((waiter, number) => {
        waiter.settle(error, recorded ? offset + number : undefined);
      }));
      socket.send(`${text}${recorded ? ',"confirm":true' : ""},"request":${request}}`);
    }
    for (const text of this.#asked.take()) socket.send(text);
    for (const text of this.#services.take()) socket.send(text);
  }

  // --- services -----------------------------------------------------------------------------------------------------

  /** @param {Service} service */
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

  /**
   * @param {Service} service
   * @returns {Promise<void>}
   */
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

  /** @param {ClaimedName} claimed */
  #sendClaim(claimed) {
    const { name, labels, queue } = claimed;
    const request = this.#nextRequest((error, lost, text) => {
      if (lost || this.#names.get(name) !== claimed) return;
      if (error === null) claimed.stand(text === "queued" ? "queued" : "owned");
      else this.#loseName(claimed, error);
    });
    this.#send({ type: "claim", name, labels, queue, request });
  }

  /** @param {{name: string, standing: Standing | "lost", text: string}} told */
  #nameStands({ name, standing, text }) {
    const claimed = this.#names.get(name);
    if (claimed === undefined) return; // released meanwhile
    if (standing === "lost") this.#loseName(claimed, new HubError(1008, text));
    else claimed.stand(standing, text);
  }

  /**
   * @param {ClaimedName} claimed
   * @param {Error} error
   */
  #loseName(claimed, error) {
    this.#names.delete(claimed.name);
    if (claimed.end(error)) this.#report(error); // else whoever claimed it is told by `confirmed`
  }

  /**
   * @param {ClaimedName} claimed
   * @returns {Promise<void>}
   */
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

  /**
   * @param {Order} order
   * @returns {Promise<Found>}
   */
  #fetch(order) {
    this.#assertNotClosed();
    /** @type {Deferred<Found>} */
    const answer = deferred();
    const request = this.#nextRequest();
    this.#fetches.set(request, { order, answer });
    if (this.#state === "open") this.#send({ type: "fetch", request, ...order });
    return answer.promise;
  }

  /** @param {Found & {request: number}} message */
  #fetched(message) {
    this.#fetches.get(message.request)?.answer.resolve(message);
    this.#fetches.delete(message.request);
  }

  /**
   * @param {number} request
   * @param {Error} error
   */
  #unfetched(request, error) {
    this.#fetches.get(request)?.answer.reject(error);
    return this.#fetches.delete(request);
  }

  /**
   * A subscription that begins in the journal. `room` gives a promise while its reader is behind.
   *
   * @param {Wanted} prefixes
   * @param {From} from
   * @param {Deliver} deliver
   * @param {(error: Error | null) => void} ended
   * @param {() => Promise<void> | undefined} room
   */
  #follow(prefixes, { fromOffset, fromTime, hub, recorded = false }, deliver, ended, room) {
    this.#assertNotClosed();
    const live = handled(deferred());
    const keyed = wantedPrefixes(/** @type {string | readonly string[]} */ (prefixes)); // a rule is none, and refused
    const followed = new Subscription(keyed, deliver, ended, () => stop(null));
    followed.confirmedBy([live.promise]);
    /** @type {Client | undefined} */
    let line;
    const hangUp = () => {
      if (line === undefined) return Promise.resolve();
      this.#lines.delete(line);
      return line.close();
    };
    const stop = (/** @type {Error | null} */ error) => {
      if (!followed.active) return Promise.resolve();
      followed.ended(error);
      return hangUp();
    };
    const dial = () => {
      hangUp();
      line = new Client(this.#url, this.#options);
      line.on("error", (error) => this.#report(error));
      this.#lines.add(line);
      return line.#journalLine();
    };
    const from = recorded && fromOffset === undefined ? fromTime ?? END_OF_TIME_MS : fromTime;
    const order = { prefixes: [...followed.prefixes], ...place(fromOffset ?? 0, from), ...whose(hub) };
    const reader = { room, dropped: (/** @type {number} */ count) => this.#dropped(count), caughtUp: () => live.resolve() };
    const following = new Following(order, followed, recorded, reader);
    const run = async () => {
      while (followed.active && !(await following.over(dial())));
      live.resolve();
    };
    run().catch((error) => {
      if (!followed.active) return;
      stop(error);
      this.#report(error);
    });
    return followed;
  }

  /** @returns {JournalLine} What of this client a followed journal needs. */
  #journalLine() {
    return {
      fetch: (order) => this.#fetch(order),
      subscribe: (prefixes, callback) => this.#subscribe(prefixes, callback, () => {}),
      on: (event, listener) => this.on(event, listener),
      began: () => this.#began,
      journal: () => this.#welcome?.journal,
    };
  }

  /**
   * @param {Wanted} what
   * @param {Deliver} callback
   * @param {(error: Error | null) => void} ended
   */
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

  /** @param {Entry[]} all */
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

  /**
   * A refused list is tried again one by one, so that only the prefixes at fault lose their subscriptions.
   *
   * @param {Entry[]} entries
   * @param {Error | null} error
   */
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

  /**
   * @param {Subscription} subscription
   * @param {Error} error
   * @param {Entry[]} refused
   */
  #end(subscription, error, refused) {
    const unused = this.#filter.remove(subscription).filter((entry) => !refused.includes(entry));
    subscription.ended(error);
    if (unused.length > 0) this.#sendUnsubscribe(unused);
    this.#report(error);
  }

  /**
   * @param {Subscription} subscription
   * @returns {Promise<void>}
   */
  #unsubscribe(subscription) {
    const unused = this.#filter.remove(subscription);
    subscription.ended(null);
    if (unused.length === 0 || this.#state !== "open") return Promise.resolve();
    this.#flush();
    return this.#sendUnsubscribe(unused);
  }

  /** @param {Entry[]} entries */
  #sendUnsubscribe(entries) {
    const done = handled(deferred());
    const request = this.#nextRequest((error, lost) => done.settle(lost ? null : error));
    this.#send({ ...change(entries, "unsubscribe", "unrule"), request });
    return done.promise;
  }

  /** @param {Settle} [settle] */
  #nextRequest(settle) {
    this.#lastRequest += 1;
    if (settle) this.#requests.set(this.#lastRequest, settle);
    return this.#lastRequest;
  }

  /**
   * @param {number} request
   * @param {Error | null} error
   * @param {any} [offset]
   */
  #settle(request, error, offset) {
    const settle = this.#requests.get(request);
    if (settle === undefined) return false;
    this.#requests.delete(request);
    settle(error, false, offset);
    return true;
  }

  /** @param {Error} error */
  #settleAll(error) {
    const pending = [...this.#requests.values()];
    this.#requests.clear();
    for (const settle of pending) settle(error, true);
  }

  #assertNotClosed() {
    if (this.#state === "closed") throw this.#ended;
  }

  /**
   * @param {string} topic
   * @param {string} text
   */
  #assertFits(topic, text) {
    const limit = this.#welcome?.frame ?? Infinity;
    const roomBytes = limit - 3 * topic.length - 80; // beside topic and value stand the names of the fields
    if (3 * text.length <= roomBytes) return; // no character takes more than three bytes
    if (new TextEncoder().encode(text).length > roomBytes) {
      throw new HubError(1009, `the value is larger than this hub takes (${limit} bytes a message)`);
    }
  }

  /**
   * @template {keyof Events} Event
   * @param {Event} event
   * @param {Parameters<Events[Event]>} details
   */
  #emit(event, ...details) {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        listener(...details);
      } catch (error) {
        reportUncaught(error);
      }
    }
  }

  /** @param {unknown} error */
  #report(error) {
    this.#counters.errors += 1;
    if (this.#listeners.get("error")?.size) this.#emit("error", /** @type {Error} */ (error));
    else reportUncaught(error);
  }
}

/**
 * Where a hub is, whose URL is relative to that of a module.
 *
 * @param {string} url
 * @param {string} base
 */
export function endpoint(url, base) {
  const target = new URL(url, base);
  target.protocol = target.protocol.replace(/^http/, "ws");
  target.hash = "";
  if (target.pathname === "/") target.pathname = "/v1/hub";
  if (!/^wss?:$/.test(target.protocol)) throw new TypeError(`not the URL of a hub: ${target}`);
  return target.href;
}

/**
 * How long a hub asks to wait before coming back, milliseconds; null if the reason of its close does not say so.
 *
 * @param {number} code
 * @param {string} reason
 */
function retryAfterMs(code, reason) {
  const found = NOT_NOW.includes(code) ? /; retry after (\d{1,6}(?:\.\d{1,3})?) s$/.exec(reason) : null;
  return found && Math.min(Number(found[1]) * 1_000, RETRY_MS);
}

/** @param {unknown} error */
function reportUncaught(error) {
  (globalThis.reportError ?? console.error)(error);
}
