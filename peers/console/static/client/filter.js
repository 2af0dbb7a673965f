/**
 * Which subscriptions hold which prefix or rule, and which of them want a message.
 *
 * Owner of the state: `Filter`, of one client. Invariants: a prefix, or a rule, is one entry, however many hold it. Cost: one
 * map lookup for a topic that was seen lately. Knows no socket.
 */

import { isMatch } from "./rules.js";
import { deferred } from "./waiting.js";

/**
 * @import { BesideMessage, Rule } from "./rules.js"
 * @import { Subscription } from "./subscription.js"
 * @import { Deferred } from "./waiting.js"
 *
 * @typedef {object} Entry What is told the hub once.
 * @property {string} prefix Or the text of a rule.
 * @property {Rule | null} rule Null for a prefix.
 * @property {Set<Subscription>} subscriptions
 * @property {Deferred<void>} confirmed
 */

/** Topics whose subscriptions are remembered; the cache starts anew when it is full. */
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

  /**
   * Returns the entries that are new and so have to be told to the hub.
   *
   * @param {Subscription} subscription
   */
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

  /**
   * Returns the entries that nobody holds any more.
   *
   * @param {Subscription} subscription
   */
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

  /**
   * O(1) for a topic seen lately, else one lookup for each distinct length of a prefix.
   *
   * @param {string} topic
   */
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

  /**
   * The same of a message with labels or names.
   *
   * @param {string} topic
   * @param {BesideMessage} beside
   */
  routeBeside(topic, beside) {
    const found = new Set(this.route(topic));
    for (const { rule, subscriptions } of this.#rules) {
      if (isMatch(rule, topic, beside)) subscriptions.forEach((subscription) => found.add(subscription));
    }
    return found;
  }
}
