/**
 * A copy of a store that is read without asking.
 *
 * Owner of the state: its `Copying`. Invariant: what is read is a state that the store had; how old it is at most can be asked.
 */

import { REQUEST_MS } from "../requests.js";
import { extensionOf } from "../values/extensions.js";
import { received, sent } from "../values/travel.js";
import { Extension, Real } from "../values/types.js";
import { now } from "../waiting.js";

/**
 * @import { StoreValue } from "../../hub.js"
 * @import { MakeCopying } from "./copying.js"
 */

/** What `store.replica` returns: a copy that is read without asking. It may be behind, and says how old it is. */
export class StoreReplica {
  #copying;

  /** @param {MakeCopying} copy */
  constructor(copy) {
    this.#copying = copy(() => {}, () => {});
  }

  /** A promise that it holds a state of the store. */
  get confirmed() {
    return this.#copying.confirmed;
  }

  /**
   * @param {StoreValue} key
   * @param {any} [fallback]
   * @returns {any}
   */
  get(key, fallback = null) {
    const entry = this.#copying.copy.entries.get(keyText(key));
    return entry === undefined ? fallback : received(entry.value);
  }

  /**
   * The version of a key's entry; 0 if there is none.
   *
   * @param {StoreValue} key
   */
  version(key) {
    return this.#copying.copy.entries.get(keyText(key))?.version ?? 0;
  }

  /** @param {StoreValue} key */
  has(key) {
    return this.#copying.copy.entries.has(keyText(key));
  }

  get size() {
    return this.#copying.copy.entries.size;
  }

  /** Yields keys and values of one state: that of the call. */
  items() {
    const entries = [...this.#copying.copy.entries];
    return (function* each() {
      for (const [key, { value }] of entries) yield /** @type {[any, any]} */ ([received(key), received(value)]);
    }());
  }

  /** The number of the last change that it has. */
  get number() {
    return this.#copying.copy.number;
  }

  /** How long ago the store was as this copy is, at most, seconds; Infinity where nobody knows. */
  get ageS() {
    return (now() - this.#copying.copy.freshMs) / 1_000;
  }

  /**
   * Wait until it has a change, as `store.written`. Rejects with 1013 where that takes longer, or as it has ended.
   *
   * @param {number} version
   * @param {{timeoutMs?: number}} [options]
   */
  async atLeast(version, { timeoutMs = REQUEST_MS } = {}) {
    await this.#copying.reach(version, timeoutMs);
    return this;
  }

  /** Copy no more. What is there can still be read, and grows old. */
  close() {
    return this.#copying.close();
  }
}

/**
 * A key as the store has it.
 *
 * @param {StoreValue} key
 */
function keyText(key) {
  if (!isOneForm(key)) throw new TypeError("a replica finds no key that holds sets, maps, dates or bytes: ask the store");
  return sent(key);
}

/**
 * Whether a value has the same form in the store as here; others are sorted there, or turned into what Zeek knows.
 *
 * @param {unknown} value
 * @returns {boolean}
 */
function isOneForm(value) {
  if (Array.isArray(value)) return value.every(isOneForm);
  if (typeof value === "bigint") return value < 2n ** 63n;
  if (typeof value !== "object" || value === null || value instanceof Real) return true;
  return !(value instanceof Date || value instanceof Extension) && extensionOf(value) !== null;
}
