/**
 * The changes of a store to iterate over, its present state first.
 *
 * Owner of the state: `StoreWatch`: changes that were not taken yet. Bounded: at `HELD_CHANGES` the store is not read on.
 */

import { received } from "../values/travel.js";
import { deferred } from "../waiting.js";
import { CHANGE_KINDS, CLEARED, HELD_CHANGES } from "./copy.js";

/**
 * @import { StoreChange } from "../../hub.js"
 * @import { Deferred } from "../waiting.js"
 * @import { Change } from "./copy.js"
 * @import { MakeCopying } from "./copying.js"
 */

/** What `store.watch` returns: the changes, the present state first. */
export class StoreWatch {
  #copying;
  /** @type {(Change | undefined)[]} From `#head` on. */
  #changes = [];
  #head = 0;
  /** @type {Deferred<IteratorResult<StoreChange>>[]} */
  #takers = [];
  #ended = false;
  /** @type {Error | null} */
  #error = null;

  /** @param {MakeCopying} copy */
  constructor(copy) {
    this.#copying = copy((changes) => this.#take(changes), (error) => this.#end(error));
  }

  /** A promise that the present state is there; it rejects where there is none to be had. */
  get confirmed() {
    return this.#copying.confirmed;
  }

  /** @returns {Promise<IteratorResult<StoreChange>>} */
  next() {
    if (this.#head < this.#changes.length) {
      try {
        return Promise.resolve({ value: changeOf(this.#shift()), done: false });
      } catch (error) {
        return Promise.reject(error);
      }
    }
    /** @type {Deferred<IteratorResult<StoreChange>>} */
    const taker = deferred();
    if (this.#ended) this.#finish(taker);
    else this.#takers.push(taker);
    return taker.promise;
  }

  /**
   * End it; what was not taken is thrown away.
   *
   * @returns {Promise<IteratorResult<StoreChange>>}
   */
  async return() {
    this.#changes.length = this.#head = 0;
    await this.#copying.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @param {Change[]} changes */
  #take(changes) {
    this.#changes.push(...changes.filter(({ isOther }) => !isOther));
    while (this.#head < this.#changes.length) {
      const taker = this.#takers.shift();
      if (taker === undefined) break;
      this.next().then((found) => taker.resolve(found), taker.reject);
    }
    if (this.#changes.length - this.#head >= HELD_CHANGES) this.#copying.pause();
  }

  #shift() {
    const change = /** @type {Change} */ (this.#changes[this.#head]);
    this.#changes[this.#head] = undefined;
    this.#head += 1;
    if (this.#changes.length - this.#head <= HELD_CHANGES / 2) this.#copying.resume();
    if (this.#head === this.#changes.length || this.#head >= HELD_CHANGES) {
      this.#changes = this.#changes.slice(this.#head);
      this.#head = 0;
    }
    return change;
  }

  /** @param {Error & {code?: number}} error */
  #end(error) {
    this.#ended = true;
    this.#error = error?.code === 1000 ? null : error;
    for (const taker of this.#takers.splice(0)) this.#finish(taker);
  }

  /** @param {Deferred<IteratorResult<StoreChange>>} taker */
  #finish(taker) {
    if (this.#error) taker.reject(this.#error);
    else taker.resolve({ value: undefined, done: true });
    this.#error = null;
  }
}

/**
 * @param {Change} change
 * @returns {StoreChange}
 */
function changeOf({ number, kind, key, value, old, publisher, present, partial }) {
  return {
    kind: CHANGE_KINDS[kind], key: kind === CLEARED ? null : received(key), value: received(value), old: received(old),
    version: number, publisher, present, partial,
  };
}
