/**
 * A subscription: what one caller of `subscribe` holds.
 *
 * Owner of the state: `Subscription`. Not here: what is told the hub (`subscriptions.js`).
 */

import { HubError } from "./errors.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { Keyed } from "./rules.js"
 *
 * @typedef {(message: any, size: number) => unknown} Deliver
 *
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
   * @param {Keyed} keyed
   * @param {Deliver} callback
   * @param {(error: Error | null) => void} ended
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
  get confirmed() {
    return this.#confirmed.promise;
  }

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
