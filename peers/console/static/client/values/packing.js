/**
 * Values as msgpack: keys and values of stores travel so, in base64.
 *
 * Invariants: each has its shortest form, as keys are equal by their bytes; what has no form throws a TypeError.
 */

import { checkedString } from "../checks.js";
import { extensionOf, EXTENSIONS, FIXED_EXTENSIONS } from "./extensions.js";
import { U64_MAX } from "./numbers.js";
import { Real, Table } from "./types.js";

/** How deep a value of a store may be nested. */
const NESTED = 500;

/** @typedef {"setUint8" | "setUint16" | "setUint32" | "setInt8" | "setInt16" | "setInt32" | "setFloat64" | "setBigUint64" | "setBigInt64"} Setter */

/** Grows as it is written to. */
class Packing {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #size = 0;

  get bytes() {
    return this.#bytes.subarray(0, this.#size);
  }

  /**
   * @throws {TypeError} The value, or something in it, has no form.
   * @param {unknown} value
   */
  put(value, depth = 0) {
    if (depth > NESTED) throw new TypeError(`nested too deep: more than ${NESTED} in each other`);
    switch (typeof value) {
      case "boolean": return this.#byte(value ? 0xc3 : 0xc2);
      case "string": return this.#text(value);
      case "bigint": return this.#integer(value);
      case "number":
        if (Number.isSafeInteger(value) && !Object.is(value, -0)) return this.#small(value);
        return this.#number(0xcb, "setFloat64", 8, value);
      case "object": return value === null ? this.#byte(0xc0) : this.#object(value, depth + 1);
      default: throw new TypeError(`a store holds no ${typeof value}`);
    }
  }

  /**
   * @param {object} value
   * @param {number} depth
   */
  #object(value, depth) {
    if (Array.isArray(value)) return this.#array(value, depth);
    if (value instanceof Real) return this.#number(0xcb, "setFloat64", 8, Number(value));
    if (value instanceof Set) return this.#extension(EXTENSIONS.set, packed([...value], depth));
    if (value instanceof Table) return this.#extension(EXTENSIONS.table, packed([...value].flat(1), depth));
    if (value instanceof Map) return this.#map([...value], depth);
    if (value instanceof Uint8Array) {
      this.#head(value.length, [[256, 0xc4], [65_536, 0xc5], [Infinity, 0xc6]]);
      return this.#raw(value);
    }
    const found = extensionOf(value);
    if (found !== null) return this.#extension(...found);
    const above = Object.getPrototypeOf(value);
    if (above !== null && Object.getPrototypeOf(above) !== null) {
      throw new TypeError(`a store holds no ${above.constructor?.name ?? "object like this"}`);
    }
    return this.#map(Object.entries(value).filter(([, inner]) => inner !== undefined), depth);
  }

  /**
   * @param {unknown[]} items
   * @param {number} depth
   */
  #array(items, depth) {
    if (items.length < 16) this.#byte(0x90 | items.length);
    else this.#head(items.length, [[65_536, 0xdc], [Infinity, 0xdd]]);
    for (const item of items) this.put(item, depth);
  }

  /**
   * @param {[unknown, unknown][]} pairs
   * @param {number} depth
   */
  #map(pairs, depth) {
    if (pairs.length < 16) this.#byte(0x80 | pairs.length);
    else this.#head(pairs.length, [[65_536, 0xde], [Infinity, 0xdf]]);
    for (const [key, value] of pairs) {
      this.put(key, depth);
      this.put(value, depth);
    }
  }

  /** @param {string} text */
  #text(text) {
    const bytes = new TextEncoder().encode(checkedString(text));
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else this.#head(bytes.length, [[256, 0xd9], [65_536, 0xda], [Infinity, 0xdb]]);
    this.#raw(bytes);
  }

  /**
   * @param {number} code
   * @param {Uint8Array} bytes
   */
  #extension(code, bytes) {
    const fixed = FIXED_EXTENSIONS.indexOf(bytes.length);
    if (fixed >= 0) this.#byte(0xd4 + fixed);
    else this.#head(bytes.length, [[256, 0xc7], [65_536, 0xc8], [Infinity, 0xc9]]);
    this.#byte(code & 0xff);
    this.#raw(bytes);
  }

  /**
   * The shortest form, as everywhere: keys are equal by their bytes.
   *
   * @param {number} value
   */
  #small(value) {
    if (value >= 0) {
      if (value < 0x80) return this.#byte(value);
      if (value < 0x100) return this.#number(0xcc, "setUint8", 1, value);
      if (value < 0x1_0000) return this.#number(0xcd, "setUint16", 2, value);
      if (value < 2 ** 32) return this.#number(0xce, "setUint32", 4, value);
      return this.#number(0xcf, "setBigUint64", 8, BigInt(value));
    }
    if (value >= -0x20) return this.#byte(value & 0xff);
    if (value >= -0x80) return this.#number(0xd0, "setInt8", 1, value);
    if (value >= -0x8000) return this.#number(0xd1, "setInt16", 2, value);
    if (value >= -(2 ** 31)) return this.#number(0xd2, "setInt32", 4, value);
    return this.#number(0xd3, "setBigInt64", 8, BigInt(value));
  }

  /** @param {bigint} value */
  #integer(value) {
    if (Number.isSafeInteger(Number(value))) return this.#small(Number(value));
    if (value > U64_MAX || value < -(2n ** 63n)) throw new TypeError(`an integer beyond 64 bits: ${value}`);
    return value < 0n ? this.#number(0xd3, "setBigInt64", 8, value) : this.#number(0xcf, "setBigUint64", 8, value);
  }

  /**
   * @param {number} length
   * @param {[limit: number, mark: number][]} marks
   */
  #head(length, marks) {
    const [[limit, mark]] = marks.filter(([each]) => length < each);
    if (limit === 256) this.#number(mark, "setUint8", 1, length);
    else if (limit === 65_536) this.#number(mark, "setUint16", 2, length);
    else this.#number(mark, "setUint32", 4, length);
  }

  /**
   * @template {Setter} Set
   * @param {number} mark
   * @param {Set} set
   * @param {number} size
   * @param {Parameters<DataView[Set]>[1]} value
   */
  #number(mark, set, size, value) {
    this.#byte(mark);
    const at = this.#room(size); // before the view is looked at: where there is no room, there is another one then
    const view = /** @type {Record<Setter, (at: number, value: unknown) => void>} */ (/** @type {unknown} */ (this.#view));
    view[set](at, value);
  }

  /** @param {number} byte */
  #byte(byte) {
    const at = this.#room(1);
    this.#bytes[at] = byte;
  }

  /** @param {Uint8Array} bytes */
  #raw(bytes) {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /**
   * Returns where so many bytes may be written.
   *
   * @param {number} count
   */
  #room(count) {
    const at = this.#size;
    this.#size += count;
    if (this.#size > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#size, 2 * this.#bytes.length));
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }
}

/** @param {unknown} value */
export function packed(value, depth = 0) {
  const packing = new Packing();
  packing.put(value, depth);
  return packing.bytes;
}
