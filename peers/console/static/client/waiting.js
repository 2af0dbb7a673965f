/** Promises that are settled from outside, pauses, the clock, the end of a turn, and items to iterate over. */

import { codeOf } from "./errors.js";

/**
 * @template Value
 * @typedef {{promise: Promise<Value>, resolve: (value: Value | PromiseLike<Value>) => void,
 *   reject: (error: unknown) => void, settle: (error: unknown, value?: Value) => void}} Deferred
 *   A promise that is settled from outside. `settle`: Rejects it, unless there is no error.
 */

/**
 * @template [Value=void]
 * @returns {Deferred<Value>}
 */
export function deferred() {
  /** @type {Deferred<Value>["resolve"]} */
  let resolve = () => {};
  /** @type {Deferred<Value>["reject"]} */
  let reject = () => {};
  /** @type {Promise<Value>} */
  const promise = new Promise((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject, settle: (error, value) => (error ? reject(error) : resolve(/** @type {Value} */ (value))) };
}

/**
 * A rejection that is not awaited is no error of the program: an event reports it as well.
 * @template {{promise: Promise<any>}} It
 * @param {It} it
 */
export function handled(it) {
  it.promise.catch(() => {});
  return it;
}

/** @param {number} ms @returns {Promise<void>} */
export function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}

export function now() {
  return performance.now();
}

// Messages are written together, at the end of the turn in which they were made.

export class Turn {
  #write;
  #scheduled = false;

  /** @param {() => void} write Writes all messages that wait. */
  constructor(write) {
    this.#write = write;
  }

  schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.flush());
  }

  /** Write now: the next message must follow on the wire. */
  flush() {
    this.#scheduled = false;
    this.#write();
  }
}

/**
 * Items that wait until the iteration takes them, oldest first.
 * @template Item, Result
 */
export class Items {
  /** @type {(Item | undefined)[]} From `#head` on. */
  #items = [];
  #head = 0;
  /** @type {Deferred<IteratorResult<Result>>[]} */ #takers = [];
  #use;
  /** @type {Error | null} */ #error = null;
  hasEnded = false;

  /** @param {(item: Item) => Result} use Called with each item that is taken; the iteration yields its result, or rejects. */
  constructor(use) {
    this.#use = use;
  }

  get length() { return this.#items.length - this.#head; }

  /** @param {Item[]} items */
  push(...items) {
    this.#items.push(...items);
    while (this.length > 0 && this.#takers.length > 0) this.#take(/** @type {Deferred<any>} */ (this.#takers.shift()));
  }

  /** Amortised O(1): the taken front is cut off once it is as long as the rest. */
  shift() {
    const item = /** @type {Item} */ (this.#items[this.#head]);
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (2 * this.#head >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return this.#use(item);
  }

  /** @returns {Promise<IteratorResult<Result>>} */
  next() {
    /** @type {Deferred<IteratorResult<Result>>} */
    const taker = deferred();
    if (this.length > 0) this.#take(taker);
    else if (this.hasEnded) this.#finish(taker);
    else this.#takers.push(taker);
    return taker.promise;
  }

  clear() {
    this.#items.length = this.#head = 0;
  }

  // Buffered items can still be taken; then the iteration ends, with the error unless the program has ended it.
  /** @param {Error | null} error */
  end(error) {
    this.hasEnded = true;
    this.#error = codeOf(error) === 1000 ? null : error;
    for (const taker of this.#takers.splice(0)) this.#finish(taker);
  }

  /** @param {Deferred<IteratorResult<Result>>} taker */
  #take(taker) {
    try {
      taker.resolve({ value: this.shift(), done: false });
    } catch (error) {
      taker.reject(error);
    }
  }

  /** @param {Deferred<IteratorResult<Result>>} taker */
  #finish(taker) {
    if (this.#error) taker.reject(this.#error);
    else taker.resolve({ value: undefined, done: true });
    this.#error = null;
  }
}
