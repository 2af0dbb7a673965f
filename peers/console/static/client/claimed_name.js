/**
 * A service name that this client has claimed: whether it is owned, and why not.
 *
 * Owner of the state: `ClaimedName`. Not here: what is told the hub (`names.js`).
 */

import { deferred, handled } from "./waiting.js";

/** @typedef {"asked" | "queued" | "owned" | "ended"} Standing */

/** What one caller of `claim` holds. */
export class ClaimedName {
  /** @type {Standing} */
  #standing = "asked";
  #reason = "";
  #release;
  #confirmed = handled(deferred());
  #wasConfirmed = false;
  #owned = handled(deferred());

  /**
   * @param {string} name
   * @param {readonly string[]} labels
   * @param {boolean} queue
   * @param {(claimed: ClaimedName) => Promise<void>} release
   */
  constructor(name, labels, queue, release) {
    this.name = name;
    this.labels = Object.freeze(labels);
    this.queue = queue;
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

  /**
   * @param {Standing} standing
   * @param {string} [reason]
   */
  stand(standing, reason = "") {
    if (this.owned && standing !== "owned") this.#owned = handled(deferred());
    this.#standing = standing;
    this.#reason = reason;
    if (standing === "asked") return;
    this.#wasConfirmed = true;
    this.#confirmed.resolve();
    if (standing === "owned") this.#owned.resolve();
  }

  /**
   * Returns whether it had been confirmed before.
   *
   * @param {Error} error
   */
  end(error) {
    this.stand("asked", error.message); // no promise of before tells that it is owned
    this.#standing = "ended";
    this.#confirmed.reject(error);
    this.#owned.reject(error);
    return this.#wasConfirmed;
  }
}
