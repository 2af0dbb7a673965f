/** A store of a hub: its commands and queries are requests under `$store/`, see docs/stores.md. */

import { checkedString, checkedTopic } from "../checks.js";
import { REQUEST_MS } from "../requests.js";
import { extensionOf, received, sent } from "../values/packing.js";
import { Extension, Real } from "../values/types.js";
import { Items, now } from "../waiting.js";
import { CHANGE_KINDS, CLEARED, Copying, HELD_CHANGES } from "./copying.js";

/**
 * @import { Client, Expiring, StoreChange, StoreEntry, StoreState, StoreValue } from "../../hub.js"
 * @import { Deliver, Subscription } from "../subscriptions.js"
 * @import { Change, MakeCopying } from "./copying.js"
 */

/**
 * @typedef {object} Line What a store needs of a client.
 * @property {(topic: string, value: unknown) => Promise<any>} request
 * @property {(topic: string, value: unknown) => void} publish
 * @property {(prefix: string, callback: Deliver, ended: (error: Error | null) => void) => Subscription} subscribe
 * @property {Client["on"]} on
 * @typedef {[value: string, version: number, leftNs: number | null]} EntryRow
 */

/** What `client.store` returns. All calls reject as `request` does, and with a TypeError where a value has no form. */
export class Store {
  /** The highest number of a change that this object has made: a replica that is as new has them all. */
  written = 0;
  #line;
  #topic;

  /** @param {string} name @param {Line} line */
  constructor(name, line) {
    if (typeof name !== "string" || name === "" || /[/=]/.test(name)) throw new TypeError(`no name of a store: ${name}`);
    this.name = name;
    this.#line = line;
    this.#topic = checkedTopic(`$store/${name}/`);
  }

  /**
   * Set the value of a key. Returns the new version; null if there was another one than `ifVersion` (0: no entry).
   * @param {StoreValue} key @param {StoreValue} value @param {Expiring & {ifVersion?: number | null}} [options]
   * @returns {Promise<number | null>}
   */
  async put(key, value, { expiresS, ifVersion = null } = {}) {
    return this.#change(["put", sent(key), sent(value), expiryNs(expiresS), ifVersion]);
  }

  /**
   * The same without an answer: nobody learns whether it was carried out. Throws as `publish` does.
   * @param {StoreValue} key @param {StoreValue} value @param {Expiring} [options]
   */
  putNowait(key, value, { expiresS } = {}) {
    this.#line.publish(`${this.#topic}write`, ["put", sent(key), sent(value), expiryNs(expiresS)]);
  }

  /**
   * Set the value of a key that has no entry; returns whether that was so.
   * @param {StoreValue} key @param {StoreValue} value @param {Expiring} [options]
   */
  async putUnique(key, value, { expiresS } = {}) {
    return await this.#change(["put_unique", sent(key), sent(value), expiryNs(expiresS)]) !== null;
  }

  /**
   * Take an entry away; returns whether there was one, with this version if one is given.
   * @param {StoreValue} key @param {{ifVersion?: number | null}} [options]
   */
  async erase(key, { ifVersion = null } = {}) {
    return await this.#change(["erase", sent(key), null, null, ifVersion]) !== null;
  }

  /** Take all entries away. */
  async clear() {
    await this.#change(["clear"]);
  }

  /**
   * Add to a number of the same type, or a timespan to a timestamp or timespan; a missing number is 0.
   * @param {StoreValue} key @param {StoreValue} [by] @param {Expiring} [options] @returns {Promise<any>}
   */
  async increment(key, by = 1, { expiresS } = {}) {
    return this.#calculate("increment", key, by, expiresS);
  }

  /**
   * Subtract likewise; there must be an entry.
   * @param {StoreValue} key @param {StoreValue} [by] @param {Expiring} [options] @returns {Promise<any>}
   */
  async decrement(key, by = 1, { expiresS } = {}) {
    return this.#calculate("decrement", key, by, expiresS);
  }

  /**
   * Put text behind a string.
   * @param {StoreValue} key @param {string} text @param {Expiring} [options] @returns {Promise<string>}
   */
  async append(key, text, { expiresS } = {}) {
    return this.#calculate("append", key, text, expiresS);
  }

  /**
   * Put a member into a set, or with a value an entry into a table.
   * @param {StoreValue} key @param {StoreValue} member @param {StoreValue} [value] @param {Expiring} [options]
   * @returns {Promise<any>}
   */
  async insert(key, member, value = undefined, { expiresS } = {}) {
    if (value === undefined) return this.#calculate("insert", key, member, expiresS);
    return this.#calculate("insert_entry", key, [member, value], expiresS);
  }

  /**
   * Take a member out of a set, or the entry of a key out of a table.
   * @param {StoreValue} key @param {StoreValue} member @param {Expiring} [options] @returns {Promise<any>}
   */
  async remove(key, member, { expiresS } = {}) {
    return this.#calculate("remove", key, member, expiresS);
  }

  /**
   * Put an element behind a vector.
   * @param {StoreValue} key @param {StoreValue} element @param {Expiring} [options] @returns {Promise<any[]>}
   */
  async push(key, element, { expiresS } = {}) {
    return this.#calculate("push", key, element, expiresS);
  }

  /**
   * Take the last element off a vector.
   * @param {StoreValue} key @param {Expiring} [options] @returns {Promise<any[]>}
   */
  async pop(key, { expiresS } = {}) {
    return this.#calculate("pop", key, null, expiresS);
  }

  /**
   * The value of a key; `fallback` if there is none.
   * @param {StoreValue} key @param {any} [fallback] @returns {Promise<any>}
   */
  async get(key, fallback = null) {
    const found = await this.#read(["get", sent(key)]);
    return found === null ? fallback : received(found[0]);
  }

  /** `{key, value, version, expiresS}`; null if there is no entry. @param {StoreValue} key */
  async entry(key) {
    const found = await this.#read(["get", sent(key)]);
    return found === null ? null : entryOf(key, found);
  }

  /** @param {StoreValue} key @returns {Promise<boolean>} */
  async exists(key) {
    return this.#read(["exists", sent(key)]);
  }

  /**
   * An element of a vector, the value of a table's key, or whether a set has a member; `fallback` if it is not there.
   * @param {StoreValue} key @param {StoreValue} index @param {any} [fallback] @returns {Promise<any>}
   */
  async index(key, index, fallback = null) {
    const found = await this.#read(["index", sent(key), sent(index)]);
    return found === null ? fallback : received(found);
  }

  /** All keys, or those that are strings and begin with the prefix. @returns {Promise<any[]>} */
  async keys(prefix = "") {
    const found = [];
    for await (const key of this.#rows(prefix, false)) found.push(received(key));
    return found;
  }

  /** Yields the entries likewise, as they are by then. @returns {AsyncGenerator<StoreEntry, void>} */
  async *entries(prefix = "") {
    for await (const [key, ...entry] of this.#rows(prefix, true)) yield entryOf(received(key), entry);
  }

  /** `{epoch, number, entries, bytes}`. @returns {Promise<StoreState>} */
  async state() {
    const [epoch, number, entries, bytes] = await this.#read(["state"]);
    return { epoch, number, entries, bytes };
  }

  /**
   * Iterate over what is there, and then over each change: `for await (const change of store.watch("sensor-"))`.
   *
   * A change is `{kind, key, value, old, version, publisher, present, partial}`. Nothing is missing in between, also
   * where the connection is lost meanwhile, which the client's events tell. Leaving the loop ends it.
   */
  watch(prefix = "") {
    return new StoreWatch((told, ended) => this.#copy(checkedString(prefix), told, ended));
  }

  /** Copy the store into this page, to read it without asking. */
  replica() {
    return new StoreReplica((told, ended) => this.#copy("", told, ended));
  }

  /** @param {string} prefix @param {(changes: Change[]) => void} told @param {(error: Error) => void} ended */
  #copy(prefix, told, ended) {
    const line = { ...this.#line, read: (/** @type {unknown[]} */ asked) => this.#read(asked) };
    return new Copying(line, `${this.#topic}changes/`, prefix, told, ended);
  }

  /** @param {unknown[]} asked */
  #read(asked) {
    return this.#line.request(`${this.#topic}read`, asked);
  }

  /** @param {unknown[]} command */
  async #change(command) {
    return this.#noted(await this.#line.request(`${this.#topic}write`, command));
  }

  /** @param {string} kind @param {StoreValue} key @param {StoreValue} operand @param {number} [expiresS] */
  async #calculate(kind, key, operand, expiresS) {
    const command = [kind, sent(key), sent(operand), expiryNs(expiresS)];
    const [number, value] = await this.#line.request(`${this.#topic}write`, command);
    this.#noted(number);
    return received(value);
  }

  /** @param {string} prefix @param {boolean} values @returns {AsyncGenerator<any, void>} */
  async *#rows(prefix, values) {
    let [, reading, , , rows] = await this.#read(["rows", checkedString(prefix), values]);
    yield* rows;
    while (reading) {
      [, reading, , , rows] = await this.#read(["more", reading]);
      yield* rows;
    }
  }

  /** @param {number | null} number */
  #noted(number) {
    this.written = Math.max(this.written, number ?? 0);
    return number;
  }
}

/** @param {unknown} key @param {EntryRow} row @returns {StoreEntry} */
function entryOf(key, [value, version, leftNs]) {
  return { key, value: received(value), version, expiresS: leftNs === null ? null : leftNs / 1e9 };
}

/** @param {number | null} [expiresS] */
function expiryNs(expiresS) {
  if (expiresS === undefined || expiresS === null) return null;
  if (!(expiresS > 0 && expiresS <= 9e9)) throw new TypeError(`expiresS is ${expiresS}: seconds, more than 0`);
  return Math.round(expiresS * 1e9);
}

// A copy of a store that is read without asking.

/** What `store.replica` returns: a copy that is read without asking. It may be behind, and says how old it is. */
class StoreReplica {
  #copying;

  /** @param {MakeCopying} copy */
  constructor(copy) {
    this.#copying = copy(() => {}, () => {});
  }

  /** A promise that it holds a state of the store. */
  get confirmed() { return this.#copying.confirmed; }

  /** @param {StoreValue} key @param {any} [fallback] @returns {any} */
  get(key, fallback = null) {
    const entry = this.#copying.copy.entries.get(keyText(key));
    return entry === undefined ? fallback : received(entry.value);
  }

  /** The version of a key's entry; 0 if there is none. @param {StoreValue} key */
  version(key) {
    return this.#copying.copy.entries.get(keyText(key))?.version ?? 0;
  }

  /** @param {StoreValue} key */
  has(key) {
    return this.#copying.copy.entries.has(keyText(key));
  }

  get size() { return this.#copying.copy.entries.size; }

  /** Yields keys and values of one state: that of the call. */
  items() {
    const entries = [...this.#copying.copy.entries];
    return (function* each() {
      for (const [key, { value }] of entries) yield /** @type {[any, any]} */ ([received(key), received(value)]);
    }());
  }

  /** The number of the last change that it has. */
  get number() { return this.#copying.copy.number; }

  /** How long ago the store was as this copy is, at most, seconds; Infinity if unknown. */
  get ageS() { return (now() - this.#copying.copy.freshMs) / 1_000; }

  /**
   * Wait until it has a change, as `store.written`. Rejects with 1013 where that takes longer, or as it has ended.
   * @param {number} version @param {{timeoutMs?: number}} [options]
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

/** A key as the store has it. @param {StoreValue} key */
function keyText(key) {
  if (!isOneForm(key)) throw new TypeError("a replica finds no key that holds sets, maps, dates or bytes: ask the store");
  return sent(key);
}

/**
 * Whether a value has the same form in the store as here; others are sorted there, or turned into what Zeek knows.
 * @param {unknown} value @returns {boolean}
 */
function isOneForm(value) {
  if (Array.isArray(value)) return value.every(isOneForm);
  if (typeof value === "bigint") return value < 2n ** 63n;
  if (typeof value !== "object" || value === null || value instanceof Real) return true;
  return !(value instanceof Date || value instanceof Extension) && extensionOf(value) !== null;
}

// The changes of a store to iterate over, its present state first.

/** What `store.watch` returns: the changes, the present state first. */
class StoreWatch {
  #copying;
  /** @type {Items<Change, StoreChange>} */
  #changes = new Items((change) => {
    if (this.#changes.length <= HELD_CHANGES / 2) this.#copying.resume();
    return changeOf(change);
  });

  /** @param {MakeCopying} copy */
  constructor(copy) {
    this.#copying = copy((changes) => this.#take(changes), (error) => this.#changes.end(error));
  }

  /** A promise that the present state is there; it rejects where there is none to be had. */
  get confirmed() { return this.#copying.confirmed; }

  next() {
    return this.#changes.next();
  }

  /** End it; what was not taken is thrown away. @returns {Promise<IteratorResult<StoreChange>>} */
  async return() {
    this.#changes.clear();
    await this.#copying.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @param {Change[]} changes */
  #take(changes) {
    for (const change of changes) if (!change.isOther) this.#changes.push(change);
    if (this.#changes.length >= HELD_CHANGES) this.#copying.pause();
  }
}

/** @param {Change} change @returns {StoreChange} */
function changeOf({ number, kind, key, value, old, publisher, present, partial }) {
  return {
    kind: CHANGE_KINDS[kind], key: kind === CLEARED ? null : received(key), value: received(value), old: received(old),
    version: number, publisher, present, partial,
  };
}
