/**
 * Subscriptions: a prefix, or a rule, is sent to the hub once over each connection, however many subscriptions have it. Cost:
 * one map lookup a batch, one call a message.
 */

import { checkedLabels, checkedPrefixes, checkedText } from "./checks.js";
import { HubError } from "./errors.js";
import { deferred, handled, Items } from "./waiting.js";

/**
 * @import { Message, Wanted } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Deferred, Turn } from "./waiting.js"
 */

/** Prefixes of one subscribe message; with prefixes of 1 KiB far below the 16 MiB that a hub takes. */
const SUBSCRIBE_PREFIXES = 1_000;

export class Subscriptions {
  receivedMessages = 0;
  receivedBatches = 0;
  #line;
  #turn;
  #reports;
  #filter = new Filter();

  /** @param {Line} line @param {Turn} turn @param {Reports} reports */
  constructor(line, turn, reports) {
    this.#line = line;
    this.#turn = turn;
    this.#reports = reports;
  }

  /** How many different prefixes and rules there are. */
  get size() { return this.#filter.entries.size; }

  /** @param {Wanted} what @param {Deliver} deliver @param {(error: Error | null) => void} ended */
  subscribe(what, deliver, ended) {
    this.#line.assertNotClosed();
    const subscription = new Subscription(wanted(what), deliver, ended, (it) => this.#unsubscribe(it));
    const fresh = this.#filter.add(subscription);
    if (this.#line.isOpen && fresh.length > 0) {
      this.#turn.flush(); // what was published before the subscription is before it on the wire too
      this.#tell(fresh);
    }
    return subscription;
  }

  /**
   * @param {{topic: string, values: unknown[], labels?: string[], sender?: string, to?: string}} batch
   * @param {number} characters
   */
  deliver({ topic, values, labels, sender, to }, characters) {
    const beside = labels || sender || to ? { labels: labels ?? [], sender: sender ?? "", to: to ?? "" } : null;
    this.receivedBatches += 1;
    this.receivedMessages += values.length;
    const size = Math.ceil(characters / values.length);
    for (const subscription of beside ? this.#filter.routeBeside(topic, beside) : this.#filter.route(topic)) {
      for (const value of values) {
        if (!subscription.active) break;
        try {
          subscription.callback(beside ? { topic, value, ...beside } : { topic, value }, size);
        } catch (error) {
          this.#reports.report(error);
        }
      }
    }
  }

  opened() {
    this.#tell([...this.#filter.entries.values()]);
  }

  /** @param {Error} error */
  finish(error) {
    for (const subscription of this.#filter.clear()) subscription.ended(error);
  }

  /** @param {Entry[]} all */
  #tell(all) {
    for (const entries of [all.filter(({ rule }) => rule === null), all.filter(({ rule }) => rule !== null && !rule.to)]) {
      for (let start = 0; start < entries.length; start += SUBSCRIBE_PREFIXES) {
        const part = entries.slice(start, start + SUBSCRIBE_PREFIXES);
        this.#line.ask(change(part, "subscribe", "rule"), (error, lost) => {
          if (!lost) this.#answered(part, error);
        });
      }
    }
  }

  // A refused list is tried again one by one, so that only the prefixes at fault lose their subscriptions.
  /** @param {Entry[]} entries @param {Error | null} error */
  #answered(entries, error) {
    const current = entries.filter((entry) => this.#filter.entries.get(entry.prefix) === entry);
    if (error === null) {
      for (const entry of current) entry.confirmed.resolve();
    } else if (entries.length > 1) {
      for (const entry of current) this.#tell([entry]);
    } else if (current.length > 0) {
      for (const subscription of [...current[0].subscriptions]) this.#end(subscription, error, entries);
    }
  }

  /** @param {Subscription} subscription @param {Error} error @param {Entry[]} refused */
  #end(subscription, error, refused) {
    const unused = this.#filter.remove(subscription).filter((entry) => !refused.includes(entry));
    subscription.ended(error);
    if (unused.length > 0) this.#tellUnused(unused);
    this.#reports.report(error);
  }

  /** @param {Subscription} subscription @returns {Promise<void>} */
  #unsubscribe(subscription) {
    const unused = this.#filter.remove(subscription);
    subscription.ended(null);
    if (unused.length === 0 || !this.#line.isOpen) return Promise.resolve();
    this.#turn.flush();
    return this.#tellUnused(unused);
  }

  /** @param {Entry[]} entries */
  #tellUnused(entries) {
    const done = handled(deferred());
    this.#line.ask(change(entries, "unsubscribe", "unrule"), (error, lost) => done.settle(lost ? null : error));
    return done.promise;
  }
}

// The message that tells the hub of entries of one kind.
/** @param {Entry[]} entries @param {string} ofPrefixes @param {string} ofRules */
export function change(entries, ofPrefixes, ofRules) {
  if (entries[0].rule !== null) return { type: ofRules, rules: entries.map(({ rule }) => rule) };
  return { type: ofPrefixes, prefixes: entries.map(({ prefix }) => prefix) };
}

// A subscription: what one caller of `subscribe` holds.

/**
 * @typedef {(message: any, size: number) => unknown} Deliver
 * @typedef {object} Reader Who reads a subscription.
 * @property {Deliver} deliver
 * @property {(error: Error | null) => void} ended
 * @property {(count: number) => void} missed Of a journal: records that it will never get.
 * @property {() => Promise<void> | undefined} room Of a journal: a promise while the reader is behind.
 */

export class Subscription {
  #leave;
  #ended;
  #confirmed = handled(deferred());
  active = true;

  /**
   * @param {Keyed} keyed @param {Deliver} callback @param {(error: Error | null) => void} ended
   * @param {(subscription: Subscription) => Promise<void>} leave
   */
  constructor({ keys, rule }, callback, ended, leave) {
    this.keys = keys;
    this.rule = rule;
    this.prefixes = Object.freeze(rule === null ? keys : []);
    this.callback = callback;
    this.#ended = ended;
    this.#leave = leave;
  }

  /** A promise that the hub has confirmed every prefix: it stays open while there is no connection. */
  get confirmed() { return this.#confirmed.promise; }

  /** Stop the calls at once; resolves when the hub has confirmed, or had nothing to do. */
  unsubscribe() {
    return this.active ? this.#leave(this) : Promise.resolve();
  }

  /** @param {Promise<unknown>[]} confirmations */
  confirmedBy(confirmations) {
    Promise.all(confirmations).then(() => this.#confirmed.resolve());
  }

  /** @param {Error | null} error */
  ended(error) {
    this.active = false;
    this.#confirmed.reject(error ?? new HubError(1000, "unsubscribed before the hub confirmed"));
    this.#ended(error);
  }
}

// Which subscriptions hold which prefix or rule, and which of them want a message.

/**
 * @typedef {{prefix: string, rule: Rule | null, subscriptions: Set<Subscription>, confirmed: Deferred<void>}} Entry
 *   What the hub gets once. `prefix`: Or the text of a rule. `rule`: Null for a prefix.
 */

/** Topics whose subscriptions are remembered; the cache is cleared when it is full. */
const CACHED_TOPICS = 10_000;

/** Counts references. */
export class Filter {
  /** @type {Map<string, Entry>} By prefix, or the text of a rule. */
  entries = new Map();
  /** @type {Set<Entry & {rule: Rule}>} Those that are rules. */
  #rules = new Set();
  /** @type {Map<number, number>} By the length of a prefix: how many have it. */
  #lengths = new Map();
  /** @type {Map<string, Subscription[]>} By topic; a cache. */
  #routes = new Map();

  /** Returns the entries that are new and so have to be sent to the hub. @param {Subscription} subscription */
  add(subscription) {
    this.#routes.clear();
    /** @type {Entry[]} */
    const fresh = [];
    const { rule } = subscription;
    const held = subscription.keys.map((prefix) => {
      let entry = this.entries.get(prefix);
      if (entry === undefined) {
        entry = { prefix, rule, subscriptions: new Set(), confirmed: deferred() };
        this.entries.set(prefix, entry);
        if (rule === null) this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1);
        else this.#rules.add(/** @type {Entry & {rule: Rule}} */ (entry));
        if (rule?.to) entry.confirmed.resolve(); // of no concern to the hub
        else fresh.push(entry);
      }
      entry.subscriptions.add(subscription);
      return entry.confirmed.promise;
    });
    subscription.confirmedBy(held);
    return fresh;
  }

  /** Returns the entries without a holder. @param {Subscription} subscription */
  remove(subscription) {
    this.#routes.clear();
    /** @type {Entry[]} */
    const unused = [];
    for (const prefix of subscription.keys) {
      const entry = this.entries.get(prefix);
      if (!entry?.subscriptions.delete(subscription) || entry.subscriptions.size > 0) continue;
      this.entries.delete(prefix);
      if (entry.rule !== null) {
        this.#rules.delete(/** @type {Entry & {rule: Rule}} */ (entry));
        if (!entry.rule.to) unused.push(entry);
        continue;
      }
      const left = (this.#lengths.get(prefix.length) ?? 1) - 1;
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

  /** O(1) for a topic seen lately, else one lookup for each distinct length of a prefix. @param {string} topic */
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

  /** The same of a message with labels or names. @param {string} topic @param {BesideMessage} beside */
  routeBeside(topic, beside) {
    const found = new Set(this.route(topic));
    for (const { rule, subscriptions } of this.#rules) {
      if (isMatch(rule, topic, beside)) subscriptions.forEach((subscription) => found.add(subscription));
    }
    return found;
  }
}

// What is subscribed to: prefixes, or one rule, of labels, a prefix and a sender, or of a name that it is sent to.

/**
 * @typedef {{labels: string[], prefix: string, sender: string, to?: undefined} | {to: string}} Rule
 * @typedef {object} Keyed What is subscribed to: prefixes, or the text of one rule, that no topic begins with.
 * @property {string[]} keys
 * @property {Rule | null} rule Null for prefixes.
 * @typedef {{labels: readonly string[], sender: string, to: string}} BesideMessage
 *   What a message bears.
 */

/** @param {string | readonly string[]} prefixes @returns {Keyed} */
export function wantedPrefixes(prefixes) {
  return { keys: checkedPrefixes(prefixes), rule: null };
}

// What is subscribed to: prefixes, or one rule, whose key is no topic's beginning.
/** @param {Wanted} what @returns {Keyed} */
export function wanted(what) {
  if (what === null || typeof what !== "object" || Array.isArray(what)) return wantedPrefixes(/** @type {string} */ (what));
  const { labels = [], prefix = "", sender = "", to = "" } = /** @type {import("../hub.js").Rule & {to?: string}} */ (what);
  /** @type {Rule} */
  const rule = to === ""
    ? { labels: checkedLabels(labels), prefix: checkedText(prefix, "prefix"), sender: checkedText(sender, "sender") }
    : { to: checkedText(to, "name") };
  if (rule.to === undefined && rule.labels.length === 0 && sender === "") {
    throw new TypeError("a rule has labels or a sender; without them, subscribe to its prefix");
  }
  return { keys: [`\0${JSON.stringify(rule)}`], rule };
}

// Fields of a publish message behind its topic.
/** @param {readonly string[]} [labels] @param {string} [sender] @param {string} [to] */
export function textBeside(labels = [], sender = "", to = "") {
  if (labels.length === 0 && !sender && !to) return "";
  const list = checkedLabels(labels);
  const fields = { ...(list.length > 0 && { labels: list }), ...(sender && { sender }), ...(to && { to }) };
  return `,${JSON.stringify(fields).slice(1, -1)}`;
}

/** @param {Rule} rule @param {string} topic @param {BesideMessage} beside */
function isMatch(rule, topic, { labels, sender, to }) {
  if (rule.to !== undefined) return rule.to === to;
  return rule.labels.every((label) => labels.includes(label)) && topic.startsWith(rule.prefix)
    && (rule.sender === "" || rule.sender === sender);
}

// The messages of a subscription to iterate over, with a bounded buffer: the oldest live messages are dropped and
// counted; a journal is read no further.

export const STREAM_DEFAULTS = Object.freeze({ bufferMessages: 8_192, bufferBytes: 64 * 1024 * 1024 });

/** What `client.messages()` returns: an async iterator over a buffer that drops its oldest when it is full. */
export class MessageStream {
  dropped = 0;
  /** @type {Subscription} Set by the client. */
  subscription;
  #options;
  #skipped;
  /** @type {Items<{message: Message, size: number}, Message>} */
  #items = new Items(({ message, size }) => {
    this.#bytes -= size;
    if (this.#hasRoom()) this.#relieved?.resolve();
    return message;
  });
  #bytes = 0;
  /** @type {Deferred<void> | null} For a reader that waits for room. */
  #relieved = null;

  /**
   * @param {{bufferMessages: number, bufferBytes: number}} options
   * @param {((count: number) => void) | null} skipped Called with a number of dropped messages; null: none are, `room` is awaited.
   */
  constructor(options, skipped) {
    this.#options = options;
    this.#skipped = skipped;
  }

  get confirmed() { return this.subscription.confirmed; }

  /** @param {Message} message @param {number} size */
  push(message, size) {
    this.#bytes += size;
    this.#items.push({ message, size });
    const { bufferMessages, bufferBytes } = this.#options;
    while (this.#skipped && (this.#items.length > bufferMessages || this.#bytes > bufferBytes)) {
      this.#items.shift();
      this.dropped += 1;
      this.#skipped(1);
    }
  }

  /** A promise while the buffer is more than half full; for a source that can wait. */
  room() {
    if (this.#items.hasEnded || this.#hasRoom()) return undefined;
    this.#relieved = deferred();
    return this.#relieved.promise;
  }

  /** @param {Error | null} error */
  end(error) {
    this.#relieved?.resolve();
    this.#items.end(error);
  }

  next() {
    return this.#items.next();
  }

  /** @returns {Promise<IteratorResult<Message>>} */
  async return() {
    this.#items.clear();
    this.#bytes = 0;
    this.#relieved?.resolve();
    await this.subscription.unsubscribe();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #hasRoom() {
    const { bufferMessages, bufferBytes } = this.#options;
    return this.#items.length <= bufferMessages / 2 && this.#bytes <= bufferBytes / 2;
  }
}
