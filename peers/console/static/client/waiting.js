/**
 * What waits: promises that are settled from outside, pauses, and the clock that all times here are of.
 *
 * Owner of the state: whoever made it.
 */

/**
 * @template Value
 * @typedef {object} Deferred A promise that is settled from outside.
 * @property {Promise<Value>} promise
 * @property {(value: Value | PromiseLike<Value>) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {(error: unknown, value?: Value) => void} settle Rejects it, unless there is no error.
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
 *
 * @template {{promise: Promise<any>}} It
 * @param {It} it
 */
export function handled(it) {
  it.promise.catch(() => {});
  return it;
}

/**
 * @param {number} ms
 * @returns {Promise<void>}
 */
export function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}

export function now() {
  return performance.now();
}
