/**
 * What the hub is to confirm: each thing that it was told under a number.
 *
 * Owner of the state: `Confirmations`, of one client, over all its connections: a number is never used twice. Invariant: who
 * waits is told once, by the hub's answer or by the end of the connection.
 */

/**
 * @typedef {object} Answer What a hub confirms with.
 * @property {string} [text]
 * @property {number} [offset] Of the journal.
 * @property {number} [until] How many seconds a fresh token holds.
 *
 * @typedef {(error: Error | null, lost: boolean, answer: Answer) => void} Settle Called with what has become of it: `lost`
 *   says that the connection was.
 */

export class Confirmations {
  #last = 0;
  /** @type {Map<number, Settle>} By number. */
  #waiting = new Map();

  get size() {
    return this.#waiting.size;
  }

  /**
   * The next number, under which nobody waits unless there is `settle`.
   *
   * @param {Settle} [settle]
   */
  number(settle) {
    this.#last += 1;
    if (settle) this.#waiting.set(this.#last, settle);
    return this.#last;
  }

  /**
   * Returns whether somebody has waited for it.
   *
   * @param {number} number
   * @param {Error | null} error
   * @param {Answer} [answer]
   */
  settle(number, error, answer = {}) {
    const settle = this.#waiting.get(number);
    if (settle === undefined) return false;
    this.#waiting.delete(number);
    settle(error, false, answer);
    return true;
  }

  /**
   * The connection is lost: nobody knows what the hub has taken.
   *
   * @param {Error} error
   */
  lose(error) {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const settle of waiting) settle(error, true, {});
  }
}
