/**
 * A service: what one caller of `serve` holds.
 *
 * Owner of the state: `Service`. Not here: what is told the hub (`services.js`).
 */

import { deferred, handled } from "./waiting.js";

/** @import { Message } from "../hub.js" */

export class Service {
  #close;
  #confirmed = handled(deferred());

  /**
   * @param {string[]} prefixes
   * @param {(request: Message) => unknown} answer
   * @param {(service: Service) => Promise<void>} close
   */
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

  /** @param {Error | null} error */
  confirmedBy(error) {
    this.#confirmed.settle(error);
  }
}
