/** The client: what a program can do with it. An overview stands at the head of hub.js. */

import { consumed } from "./journal.js";
import { Exchange } from "./exchange.js";
import { isLive } from "./journal.js";
import { MessageStream, STREAM_DEFAULTS } from "./subscriptions.js";
import { knownNames } from "./names.js";
import { REQUEST_MS } from "./requests.js";
import { Store } from "./stores/store.js";

/**
 * @import {
 *   Beside, ConsumedMessage, ConsumeOptions, Events, From, JournalRecord, KnownName, Message, Options, ReadOptions,
 *   RequestOptions, Statistics, StreamOptions, Wanted,
 * } from "../hub.js"
 * @import { Client as DeclaredClient } from "../hub.js"
 * @import { Service } from "./services.js"
 * @import { Subscription } from "./subscriptions.js"
 */

/** @implements {DeclaredClient} */
export class Client {
  #exchange;

  /** @param {string} url @param {Options} options */
  constructor(url, options) {
    this.#exchange = new Exchange(url, options);
  }

  /** Wait until the hub has greeted us (and granted the queue asked for). Rejects once the client is closed. */
  ready() {
    return this.#exchange.line.ready;
  }

  /**
   * Call `listener` at each `open`, `close`, `dropped`, `cut`, `error` or `reconnecting`; returns what ends that.
   * @template {keyof Events} Event
   * @param {Event} event @param {Events[Event]} listener @returns {() => void}
   */
  on(event, listener) {
    return this.#exchange.reports.on(event, listener);
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
   * With `fromOffset`, `fromTime` (a Date) or `recorded: true` it is read from the hub's journal, for ever: each message
   * that is recorded once, in order, with its `offset` and `time`, as it is committed, about 0.1 s later than live. `recorded`
   * alone begins with what comes. `confirmed` tells that all is delivered that was recorded when it began. Over a lost
   * connection it goes on where it was. What is deleted before it is read is told by `dropped`, with the number of records.
   * What it has read and the hub has lost with its power since is told by `cut`, and it goes on where other records begin; who
   * subscribes again gives the `epoch` of the last message beside `fromOffset`. With `hub` as well, the name or the id of another hub, it is the journal of that one.
   * @param {Wanted} prefixes @param {(message: Message) => void} callback @param {From} [from] @returns {Subscription}
   */
  subscribe(prefixes, callback, from = {}) {
    if (typeof callback !== "function") throw new TypeError("the callback is no function");
    return this.#exchange.subscribe(prefixes, from, {
      deliver: (message) => callback(message), ended: () => {}, missed: () => {}, room: () => undefined,
    });
  }

  /**
   * Iterate over the messages under the prefixes: `for await (const message of client.messages("/zeek/"))`.
   *
   * What is not taken in time waits in a buffer bounded in messages and bytes; when it is full the oldest go, counted
   * in `dropped` of the iterator and in `statistics().skippedMessages`. A journal is read no further instead, while the
   * buffer is half full. Leaving the loop unsubscribes.
   * @param {Wanted} prefixes @param {StreamOptions} [options] @returns {MessageStream}
   */
  messages(prefixes, options = {}) {
    const skipped = isLive(options) ? (/** @type {number} */ count) => this.#exchange.reports.skipped(count) : null;
    const stream = new MessageStream({ ...STREAM_DEFAULTS, ...options }, skipped);
    stream.subscription = this.#exchange.subscribe(prefixes, options, {
      deliver: (message, size) => stream.push(message, size),
      ended: (error) => stream.end(error),
      missed: (count) => { stream.dropped += count; },
      room: () => stream.room(),
    });
    return stream;
  }

  /**
   * Iterate over what the hub's journal holds: `for await (const {offset, time, topic, value} of client.read("/zeek/"))`.
   *
   * From `start` (an offset) or `startTime` (a Date) to `end` (exclusive), or to what was recorded when reading began. It
   * asks for a piece when the one before is read, also over another connection. With `hub`, the name or the id of another
   * hub, it reads the journal of that one. With `columns`, some of "offset", "time", "topic" and "value", the hub sends
   * nothing else, and nothing else is in the records.
   * @throws {HubError} 4011: `start` was deleted, or is not there yet; `first` is the oldest offset that is. Or records before
   *     `start`, told in the `epoch` that is given, are lost; `first` is where others begin. 1008: no journal.
   *     1007: no such hub, or several; 1013: it cannot be reached now.
   * @param {string | readonly string[]} [prefixes] @param {ReadOptions} [options]
   * @returns {AsyncGenerator<JournalRecord, void>}
   */
  read(prefixes = "", options = {}) {
    return this.#exchange.journal.read(prefixes, options);
  }

  /**
   * Consume recorded messages, each at least once: `for await (const message of client.consume("billing", "/app/"))`.
   *
   * The hub keeps the consumer under its name: whoever consumes under it later goes on where this has ended, and those
   * who do so at the same time share the messages. A message is `{offset, time, topic, value, deliveries, ack}`; what is
   * not acknowledged (`message.ack()`) is delivered again. Leaving the loop leaves the consumer. Over another connection it
   * goes on by itself. The options are the terms of docs/consumers.md; a value with no JSON form is passed over and
   * acknowledged.
   * @throws {RequestError} The hub refuses: another consumer has this name, this one was removed; or records nothing.
   * @throws {HubError} 1000: closed.
   * @param {string} name @param {string | readonly string[]} [prefixes] @param {ConsumeOptions} [options]
   * @returns {AsyncGenerator<ConsumedMessage, never>}
   */
  consume(name, prefixes = [], options = {}) {
    /** @type {import("./journal.js").Ask} */
    const ask = (topic, value, timeoutMs) => this.request(topic, value, { timeoutMs });
    return consumed(ask, () => this.#exchange.line.state === "closed", name, prefixes, options);
  }

  /**
   * Publish one value; values published to one topic in one turn leave as one batch.
   *
   * It may bear `labels` (at most 32), the name of its `sender` (which this client has claimed), and a name that it is sent
   * `to`: then its owner alone gets it.
   *
   * With `confirm` it returns a promise that the hub has taken it; await it now and then to publish no faster than the hub
   * takes. With `confirm: "recorded"`, a promise of its offset in the journal.
   * @throws {HubError} 1013: the outbound buffer is full. 1009: larger than the hub takes. 1000: closed. (Or rejects.)
   * @throws {TypeError} The topic is none, or the value has no JSON form. (Or rejects.)
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
    return this.#exchange.publishing.publish(topic, value, options);
  }

  /**
   * Ask whoever serves the topic, and wait for the reply; requests of one turn to one topic travel together.
   *
   * What is asked without a connection waits for the next one, as long as its time allows. What was sent when the
   * connection is lost is not repeated.
   *
   * The topic goes to the service with the longest prefix of it; with `service`, to whoever bears that name.
   * @throws {RequestError} There is no reply; its `status` says why. (All of these: rejects.)
   * @throws {HubError} 1006: the connection was lost, nobody knows. 1013: the outbound buffer is full. 1000: closed.
   * @throws {TypeError} The topic is none, or the value has no JSON form.
   * @param {string} topic @param {unknown} value @param {RequestOptions} [options] @returns {Promise<any>}
   */
  request(topic, value, options = {}) {
    return this.#exchange.requests.request(topic, value, options);
  }

  /**
   * Answer requests whose topic starts with one of the prefixes: what `answer({topic, value})` returns (or promises) is
   * the reply, the text of what it throws is told to whoever asked, and to `error`.
   *
   * Survives reconnects. Several services under one prefix, over several connections, share the load.
   * @returns {Service} `confirmed` is a promise that the hub has taken it; `close()` ends it.
   * @param {string | readonly string[]} prefixes @param {(request: Message) => unknown} answer
   */
  serve(prefixes, answer) {
    if (typeof answer !== "function") throw new TypeError("what answers is no function");
    return this.#exchange.services.serve(prefixes, answer);
  }

  /**
   * Claim a service name: two elements or more, such as `org.example.Player`. Requests with `service` reach its owner.
   *
   * Survives reconnects: it is claimed again. When somebody else owns it by then, or a peer hub's claim was earlier, it is
   * lost, which `error` tells, unless it waits.
   *
   * The `labels` are announced with it; with `queue` it waits where somebody else owns it. `confirmed` is a promise that it is
   * owned, or waits; it rejects where the hub refuses.
   * @throws {TypeError} The name is none, or this client has claimed it already.
   * @param {string} name @param {{labels?: readonly string[], queue?: boolean}} [options]
   */
  claim(name, { labels = [], queue = false } = {}) {
    return this.#exchange.names.claim(name, labels, queue);
  }

  /**
   * List the service names that begin with a prefix, as `{name, labels, owner, hub}`. Rejects as `request` does.
   * @returns {Promise<KnownName[]>}
   */
  names(prefix = "") {
    return knownNames((topic, value) => this.request(topic, value), prefix);
  }

  /**
   * A store, wherever in the mesh it is: `await client.store("status").put("sensor-7", "up")`. See docs/stores.md.
   *
   * The words are those of the Python client. Values keep their types: what JavaScript has no type for is a `Count`, an
   * `Address`, a `Real` and so on, both ways; `untyped(value)` makes plain ones of them.
   * @throws {TypeError} That is no name of a store.
   * @param {string} name @param {{timeoutMs?: number}} [options]
   */
  store(name, { timeoutMs = REQUEST_MS } = {}) {
    return new Store(name, {
      request: (topic, value) => this.request(topic, value, { timeoutMs }),
      publish: (topic, value) => this.publish(topic, value),
      subscribe: (prefix, callback, ended) => this.#exchange.subscriptions.subscribe(prefix, callback, ended),
      on: (event, listener) => this.on(event, listener),
    });
  }

  /**
   * Counters and gauges as they are now, frozen. `droppedMessages` were lost in the hub, `skippedMessages` here.
   * @returns {Statistics}
   */
  statistics() {
    return this.#exchange.statistics();
  }

  /** Send what is ready to be sent, then close, for good. Waits for the hub's answer, at most 2 s. */
  close() {
    return this.#exchange.close();
  }
}
