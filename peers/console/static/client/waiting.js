/** Promises that are settled from outside, pauses, the clock, and the end of a turn. */

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
 * A rejection that nobody awaits is no error of the program: it is told by an event as well.
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

// When what was said is written: together, at the end of the turn in which it was said.

export class Turn {
  #write;
  #scheduled = false;

  /** @param {() => void} write Writes all that waits. */
  constructor(write) {
    this.#write = write;
  }

  /** Something waits to be written. */
  schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.flush());
  }

  /** Write it now: what follows is to stand behind it on the wire. */
  flush() {
    this.#scheduled = false;
    this.#write();
  }
}
