/**
 * The client: the line to the hub, and the parts that share it.
 *
 * ```
 *        ┌── subscriptions   services   names   journal   publishing   requests   tokens ────────┐
 *        │      ▲ messages of the hub, each to its part       their messages, once a turn ▼      │
 *        └── Line: opened ─▶ each part │ lost ─▶ each part │ closed, or rejected for good: finish ┘
 * ```
 *
 * On an open line, subscriptions, services and names are sent before buffered values, and these before requests.
 */

import { checkedText } from "./checks.js";
import { HubError } from "./errors.js";
import { consumed, isLive, JournalAccess } from "./journal.js";
import { Line, settled } from "./line.js";
import { knownNames, Names } from "./names.js";
import { Publishing } from "./publishing.js";
import { Reports } from "./reports.js";
import { REQUEST_MS, Requests } from "./requests.js";
import { Services } from "./services.js";
import { Store } from "./stores/store.js";
import { MessageStream, STREAM_DEFAULTS, Subscriptions } from "./subscriptions.js";
import { Tokens } from "./tokens.js";
import { Turn } from "./waiting.js";

/**
 * @import {
 *   Beside, Client as DeclaredClient, ConsumedMessage, ConsumeOptions, Events, From, JournalRecord, KnownName, Message, Options,
 *   ReadOptions, RequestOptions, Statistics, StreamOptions, Wanted, Welcome,
 * } from "../hub.js"
 * @import { Part } from "./line.js"
 * @import { Service } from "./services.js"
 * @import { Reader, Subscription } from "./subscriptions.js"
 */

/** @implements {DeclaredClient} */
export class Client {
  #reports = new Reports();
  /** @type {readonly Part[]} */ #parts;
  #turn = new Turn(() => this.#write());
  #line;
  #subscriptions;
  #services;
  #names;
  #journal;
  #publishing;
  #requests;

  /** @param {string} url @param {Options} given */
  constructor(url, given) {
    const options = settled(given);
    const tokens = new Tokens(options, this.#reports);
    const line = new Line(url, options, tokens, this.#reports, {
      opened: (welcome) => this.#opened(welcome),
      heard: (message, characters) => this.#heard(message, characters),
      lost: () => this.#parts.forEach((part) => part.lost?.()),
      finish: (error) => this.#parts.forEach((part) => part.finish?.(error)),
    });
    this.#line = line;
    this.#subscriptions = new Subscriptions(line, this.#turn, this.#reports);
    this.#services = new Services(line, this.#turn, this.#reports);
    this.#names = new Names(line, this.#reports);
    this.#journal = new JournalAccess(line, this.#reports);
    this.#publishing = new Publishing(options.outboundBytes, line, this.#turn);
    this.#requests = new Requests(options, line, this.#turn);
    this.#parts = [
      this.#subscriptions, this.#services, this.#names, this.#journal, this.#publishing, this.#requests, tokens,
    ];
    line.begin();
  }

  /** Wait for the hub's greeting (and for the requested queue). Rejects once the client is closed. */
  ready() {
    return this.#line.ready;
  }

  /**
   * Call `listener` at each `open`, `close`, `dropped`, `cut`, `error` or `reconnecting`; returns a function that removes it.
   * @template {keyof Events} Event
   * @param {Event} event @param {Events[Event]} listener @returns {() => void}
   */
  on(event, listener) {
    return this.#reports.on(event, listener);
  }

  /**
   * Call `callback({topic, value})` for each message whose topic starts with one of the prefixes, once a message.
   *
   * Instead of prefixes: a rule, `{labels, prefix, sender}`, for messages with all its labels, its prefix and its sender; or
   * `{to: name}`, for messages to the owner of a name that this client has claimed. Messages with labels or names have `labels`,
   * `sender` and `to` as well.
   *
   * Survives reconnects. When the hub rejects a prefix the subscription ends: `confirmed` rejects and `error` is emitted.
   *
   * With `fromOffset`, `fromTime` (a Date) or `recorded: true` it follows the hub's journal: each recorded message once, in
   * order, with its `offset` and `time`, after its commit, about 0.1 s later than live. `recorded` alone begins at the end of the
   * journal. `confirmed` resolves when all records of the beginning are delivered. It continues after a reconnect. Records
   * deleted before they are read are counted by `dropped`; records that were read and that the hub lost in a power failure are
   * reported by `cut`. To subscribe again later, give the `epoch` of the last message with `fromOffset`. `hub`, the name or id of
   * another hub, follows the journal of that hub.
   * @param {Wanted} prefixes @param {(message: Message) => void} callback @param {From} [from] @returns {Subscription}
   */
  subscribe(prefixes, callback, from = {}) {
    if (typeof callback !== "function") throw new TypeError("the callback is no function");
    return this.#subscribe(prefixes, from, {
      deliver: (message) => callback(message), ended: () => {}, missed: () => {}, room: () => undefined,
    });
  }

  /**
   * Iterate over the messages under the prefixes: `for await (const message of client.messages("/zeek/"))`.
   *
   * Messages wait in a buffer limited in messages and bytes; a full buffer drops its oldest, counted in `dropped` of the
   * iterator and in `statistics().skippedMessages`. From a journal nothing is dropped: it is read only while the buffer is less
   * than half full. Leaving the loop unsubscribes.
   * @param {Wanted} prefixes @param {StreamOptions} [options] @returns {MessageStream}
   */
  messages(prefixes, options = {}) {
    const skipped = isLive(options) ? (/** @type {number} */ count) => this.#reports.skipped(count) : null;
    const stream = new MessageStream({ ...STREAM_DEFAULTS, ...options }, skipped);
    stream.subscription = this.#subscribe(prefixes, options, {
      deliver: (message, size) => stream.push(message, size),
      ended: (error) => stream.end(error),
      missed: (count) => { stream.dropped += count; },
      room: () => stream.room(),
    });
    return stream;
  }

  /**
   * Iterate over the records of the hub's journal: `for await (const {offset, time, topic, value} of client.read("/zeek/"))`.
   *
   * From `start` (an offset) or `startTime` (a Date) to `end` (exclusive), or to the end at the first request. It fetches the
   * next piece after the last one is read, also over a new connection. `hub`, the name or id of another hub, reads the journal
   * of that hub. `columns`, some of "offset", "time", "topic" and "value", limits what the hub sends.
   * @throws {HubError} 4011: `start` is deleted, or not recorded yet, and `first` is the oldest offset; or records before `start`,
   *     read in the given `epoch`, are lost, and `first` is where other records begin. 1008: no journal. 1007: no such hub, or
   *     several; 1013: it cannot be reached now.
   * @param {string | readonly string[]} [prefixes] @param {ReadOptions} [options]
   * @returns {AsyncGenerator<JournalRecord, void>}
   */
  read(prefixes = "", options = {}) {
    return this.#journal.read(prefixes, options);
  }

  /**
   * Consume recorded messages, each at least once: `for await (const message of client.consume("billing", "/app/"))`.
   *
   * The hub keeps the position of the consumer under its name; all who consume under it at the same time share its messages. A
   * message is `{offset, time, topic, value, deliveries, ack}`; without `message.ack()` it is delivered again. Leaving the loop
   * leaves the consumer. It continues after a reconnect. The options are the terms of docs/consumers.md; a value without a JSON
   * form is skipped and acknowledged.
   * @throws {RequestError} The hub rejects: other terms under this name, a removed consumer, or no journal.
   * @throws {HubError} 1000: closed.
   * @param {string} name @param {string | readonly string[]} [prefixes] @param {ConsumeOptions} [options]
   * @returns {AsyncGenerator<ConsumedMessage, never>}
   */
  consume(name, prefixes = [], options = {}) {
    /** @type {import("./journal.js").Ask} */
    const ask = (topic, value, timeoutMs) => this.request(topic, value, { timeoutMs });
    return consumed(ask, () => this.#line.state === "closed", name, prefixes, options);
  }

  /**
   * Publish one value; values of one topic published in one turn are sent as one batch.
   *
   * With `labels` (at most 32), the name of its `sender` (which this client has claimed), and the name that it is sent `to`:
   * then only the owner of that name gets it.
   *
   * With `confirm`, a promise that resolves when the hub has it; await it now and then to publish at the pace of the hub. With
   * `confirm: "recorded"`, a promise of its offset in the journal.
   * @throws {HubError} 1013: the outbound buffer is full. 1009: larger than the hub accepts. 1000: closed. (Or rejects.)
   * @throws {TypeError} The topic is invalid, or the value has no JSON form. (Or rejects.)
   * @overload
   * @param {string} topic @param {unknown} value @param {Beside & {confirm: true}} options @returns {Promise<void>}
   */
  /**
   * @overload
   * @param {string} topic @param {unknown} value @param {Beside & {confirm: "recorded"}} options
   * @returns {Promise<number>}
   */
  /**
   * @overload
   * @param {string} topic @param {unknown} value @param {Beside & {confirm?: false}} [options] @returns {void}
   */
  /**
   * @param {string} topic @param {unknown} value @param {Beside & {confirm?: boolean | "recorded"}} [options]
   * @returns {Promise<any> | undefined}
   */
  publish(topic, value, options = {}) {
    return this.#publishing.publish(topic, value, options);
  }

  /**
   * Send a request to the service of the topic (that of the longest prefix) or, with `service`, of a name; wait for the reply.
   *
   * A request without a connection waits for the next one, within its timeout. A request that was sent when the connection
   * is lost is not repeated.
   * @throws {RequestError} There is no reply; `status` says why. (All of these: rejects.)
   * @throws {HubError} 1006: connection lost before the reply. 1013: the outbound buffer is full. 1000: closed.
   * @throws {TypeError} The topic is invalid, or the value has no JSON form.
   * @param {string} topic @param {unknown} value @param {RequestOptions} [options] @returns {Promise<any>}
   */
  request(topic, value, options = {}) {
    return this.#requests.request(topic, value, options);
  }

  /**
   * Answer requests whose topic starts with one of the prefixes: the reply is the result of `answer({topic, value})`, or of its
   * promise; the text of an exception goes to the requester, and to `error`.
   *
   * Survives reconnects. Services with one prefix, over several connections, share the load. `confirmed` of the service
   * resolves when the hub has it; `close()` ends it.
   * @param {string | readonly string[]} prefixes @param {(request: Message) => unknown} answer @returns {Service}
   */
  serve(prefixes, answer) {
    if (typeof answer !== "function") throw new TypeError("what answers is no function");
    return this.#services.serve(prefixes, answer);
  }

  /**
   * Claim a service name: two elements or more, such as `org.example.Player`. Requests with `service` reach its owner.
   *
   * It is claimed again after a reconnect. If another client owns it by then, or a peer hub's claim was earlier, it is
   * lost, which `error` reports, unless it queues.
   *
   * The `labels` are announced with it; with `queue` it waits while another client owns it. `confirmed` resolves when the
   * name is owned, or queued; it rejects when the hub rejects the claim.
   * @throws {TypeError} The name is invalid, or claimed by this client already.
   * @param {string} name @param {{labels?: readonly string[], queue?: boolean}} [options]
   */
  claim(name, { labels = [], queue = false } = {}) {
    return this.#names.claim(name, labels, queue);
  }

  /**
   * List the service names that begin with a prefix, as `{name, labels, owner, hub}`. Rejects as `request` does.
   * @returns {Promise<KnownName[]>}
   */
  names(prefix = "") {
    return knownNames((topic, value) => this.request(topic, value), prefix);
  }

  /**
   * A store, on any hub of the mesh: `await client.store("status").put("sensor-7", "up")`. See docs/stores.md.
   *
   * Its methods are those of the Python client. Values keep their types: those that JavaScript lacks are a `Count`, an
   * `Address`, a `Real` and so on, both ways; `untyped(value)` makes plain values of them.
   * @throws {TypeError} The name is invalid.
   * @param {string} name @param {{timeoutMs?: number}} [options]
   */
  store(name, { timeoutMs = REQUEST_MS } = {}) {
    return new Store(name, {
      request: (topic, value) => this.request(topic, value, { timeoutMs }),
      publish: (topic, value) => this.publish(topic, value),
      subscribe: (prefix, callback, ended) => this.#subscriptions.subscribe(prefix, callback, ended),
      on: (event, listener) => this.on(event, listener),
    });
  }

  /**
   * Counters and gauges of this moment, frozen. `droppedMessages` were lost in the hub, `skippedMessages` here.
   * @returns {Statistics}
   */
  statistics() {
    return Object.freeze({
      state: this.#line.state,
      hub: this.#line.welcome?.hub ?? null,
      connections: this.#line.connections,
      receivedMessages: this.#subscriptions.receivedMessages,
      receivedBatches: this.#subscriptions.receivedBatches,
      droppedMessages: this.#reports.droppedMessages,
      skippedMessages: this.#reports.skippedMessages,
      publishedMessages: this.#publishing.publishedMessages,
      publishedBatches: this.#publishing.publishedBatches,
      discardedMessages: this.#publishing.discardedMessages,
      errors: this.#reports.errors,
      prefixes: this.#subscriptions.size,
      unconfirmed: this.#line.confirmations.size,
      pendingRequests: this.#requests.pending,
      outboundBytes: this.#publishing.size + this.#requests.size + this.#line.bufferedBytes,
    });
  }

  /** Send what is ready, then close, for good. Waits for the hub's answer, at most 2 s. */
  close() {
    if (this.#line.state !== "closed") {
      this.#turn.flush();
      this.#line.close();
    }
    return this.#line.closed;
  }

  /** @param {Wanted} prefixes @param {From} from @param {Reader} reader */
  #subscribe(prefixes, from, reader) {
    if (isLive(from)) return this.#subscriptions.subscribe(prefixes, reader.deliver, reader.ended);
    return this.#journal.follow(prefixes, from, reader);
  }

  /** @param {Welcome} welcome */
  #opened(welcome) {
    for (const part of this.#parts) part.opened?.(welcome);
    this.#turn.flush();
  }

  #write() {
    this.#publishing.seal();
    if (!this.#line.isSending) return;
    this.#publishing.write();
    this.#requests.write();
    this.#services.write();
  }

  /** @param {any} message @param {number} characters */
  #heard(message, characters) {
    switch (message.type) {
      case "messages": return this.#subscriptions.deliver(message, characters);
      case "confirmed": // the same, with other fields
      case "recorded": return this.#line.confirmations.settle(message.request, null, message);
      case "records": return this.#journal.receive(message, characters);
      case "dropped": return this.#reports.dropped(message.count);
      case "reply": return this.#requests.answer(message);
      case "request": return this.#services.receive(message);
      case "name": return this.#names.stands(message);
      case "error": return this.#refused(message);
      default: return checkedText(message.type, "type of a message"); // pong, and types of later hubs
    }
  }

  /** @param {{request: number, code: number, text: string, offset?: number, about?: string}} refusal */
  #refused({ request, code, text, offset, about }) {
    const error = new HubError(code, text, offset);
    if (about === "request" && this.#requests.refuse(request, error)) return;
    if (this.#line.confirmations.settle(request, error) || this.#journal.refuse(request, error)) return;
    this.#reports.report(error);
    this.#line.refused();
  }
}
