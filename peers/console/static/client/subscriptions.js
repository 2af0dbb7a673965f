/**
 * What the hub is told of subscriptions, and who gets what it sends.
 *
 * Owner of the state: `Subscriptions`, of one client. Invariant: a prefix, or a rule, is told to the hub once over each connection,
 * however many hold it. Cost: one map lookup a batch, one call a message.
 */

import { Filter } from "./filter.js";
import { wanted } from "./rules.js";
import { Subscription } from "./subscription.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { Wanted } from "../hub.js"
 * @import { Entry } from "./filter.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Deliver } from "./subscription.js"
 * @import { Turn } from "./turn.js"
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

  /**
   * @param {Line} line
   * @param {Turn} turn
   * @param {Reports} reports
   */
  constructor(line, turn, reports) {
    this.#line = line;
    this.#turn = turn;
    this.#reports = reports;
  }

  /** How many different prefixes and rules there are. */
  get size() {
    return this.#filter.entries.size;
  }

  /**
   * @param {Wanted} what
   * @param {Deliver} deliver
   * @param {(error: Error | null) => void} ended
   */
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

  lost() {}

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

  /**
   * A refused list is tried again one by one, so that only the prefixes at fault lose their subscriptions.
   *
   * @param {Entry[]} entries
   * @param {Error | null} error
   */
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

  /**
   * @param {Subscription} subscription
   * @param {Error} error
   * @param {Entry[]} refused
   */
  #end(subscription, error, refused) {
    const unused = this.#filter.remove(subscription).filter((entry) => !refused.includes(entry));
    subscription.ended(error);
    if (unused.length > 0) this.#tellUnused(unused);
    this.#reports.report(error);
  }

  /**
   * @param {Subscription} subscription
   * @returns {Promise<void>}
   */
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

/**
 * The message that tells the hub of entries of one kind.
 *
 * @param {Entry[]} entries
 * @param {string} ofPrefixes
 * @param {string} ofRules
 */
export function change(entries, ofPrefixes, ofRules) {
  if (entries[0].rule !== null) return { type: ofRules, rules: entries.map(({ rule }) => rule) };
  return { type: ofPrefixes, prefixes: entries.map(({ prefix }) => prefix) };
}
