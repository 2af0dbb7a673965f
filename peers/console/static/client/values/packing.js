/** Values as msgpack: keys and values of stores travel so, in base64. Each has its shortest form, as keys are equal by their bytes. */

import { checkedString } from "../checks.js";
import { HubError } from "../errors.js";
import {
  Address, addressBytes, addressText, Count, Enum, Extension, floored, MS_NS, numberOf, Port, PreciseDate, PROTOCOLS, Real,
  SECOND_NS, Subnet, subnetBytes, Table, Timespan, Timestamp, U64_MAX,
} from "./types.js";

/** How deep a value of a store may be nested. */
const NESTED = 500;

/** @typedef {"setUint8" | "setUint16" | "setUint32" | "setInt8" | "setInt16" | "setInt32" | "setFloat64" | "setBigUint64" | "setBigInt64"} Setter */

/** Grows as it is written to. */
class Packing {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #size = 0;

  get bytes() { return this.#bytes.subarray(0, this.#size); }

  /** @throws {TypeError} The value, or something in it, has no form. @param {unknown} value */
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

  /** @param {object} value @param {number} depth */
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

  /** @param {unknown[]} items @param {number} depth */
  #array(items, depth) {
    if (items.length < 16) this.#byte(0x90 | items.length);
    else this.#head(items.length, [[65_536, 0xdc], [Infinity, 0xdd]]);
    for (const item of items) this.put(item, depth);
  }

  /** @param {[unknown, unknown][]} pairs @param {number} depth */
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

  /** @param {number} code @param {Uint8Array} bytes */
  #extension(code, bytes) {
    const fixed = FIXED_EXTENSIONS.indexOf(bytes.length);
    if (fixed >= 0) this.#byte(0xd4 + fixed);
    else this.#head(bytes.length, [[256, 0xc7], [65_536, 0xc8], [Infinity, 0xc9]]);
    this.#byte(code & 0xff);
    this.#raw(bytes);
  }

  /** The shortest form, as everywhere: keys are equal by their bytes. @param {number} value */
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

  /** @param {number} length @param {[limit: number, mark: number][]} marks */
  #head(length, marks) {
    const [[limit, mark]] = marks.filter(([each]) => length < each);
    if (limit === 256) this.#number(mark, "setUint8", 1, length);
    else if (limit === 65_536) this.#number(mark, "setUint16", 2, length);
    else this.#number(mark, "setUint32", 4, length);
  }

  /**
   * @template {Setter} Set
   * @param {number} mark @param {Set} set @param {number} size @param {Parameters<DataView[Set]>[1]} value
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

  /** Returns where so many bytes may be written. @param {number} count */
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
function packed(value, depth = 0) {
  const packing = new Packing();
  packing.put(value, depth);
  return packing.bytes;
}

// Typed values as extensions of msgpack: their codes, as in docs/data-model.md, and their bytes. Pure functions.

/** Codes of docs/data-model.md, and msgpack's own for times. */
const EXTENSIONS = Object.freeze({
  count: 1, address: 2, subnet: 3, port: 4, timestamp: 5, timespan: 6, enumeration: 7, set: 8, table: 9, time: -1,
});

const FIXED_EXTENSIONS = [1, 2, 4, 8, 16];

// Code and payload of a typed value; null if it is none.
/** @param {object} value @returns {[code: number, bytes: Uint8Array] | null} */
export function extensionOf(value) {
  if (value instanceof Count) return [EXTENSIONS.count, eightBytes("setBigUint64", BigInt(value.value))];
  if (value instanceof Address) return [EXTENSIONS.address, addressBytes(value.text)];
  if (value instanceof Subnet) return [EXTENSIONS.subnet, subnetBytes(value.text)];
  if (value instanceof Port) {
    return [EXTENSIONS.port, Uint8Array.of(value.number >> 8, value.number & 0xff, PROTOCOLS.indexOf(value.protocol))];
  }
  if (value instanceof Timestamp) return [EXTENSIONS.timestamp, eightBytes("setBigInt64", value.ns)];
  if (value instanceof Timespan) return [EXTENSIONS.timespan, eightBytes("setBigInt64", value.ns)];
  if (value instanceof Enum) return [EXTENSIONS.enumeration, new TextEncoder().encode(value.text)];
  if (value instanceof Extension) return [value.code, value.bytes];
  if (value instanceof Date) return [EXTENSIONS.time, timeBytes(value)];
  return null;
}

/** The time of msgpack, in the shortest of its three forms. @param {Date} date */
function timeBytes(date) {
  if (Number.isNaN(date.getTime())) throw new TypeError("an invalid date");
  const ms = BigInt(date.getTime());
  const ns = date instanceof PreciseDate && floored(date.ns, MS_NS) === ms ? date.ns : ms * MS_NS;
  const seconds = floored(ns, SECOND_NS);
  const fraction = ns - seconds * SECOND_NS;
  if (seconds >= 0n && seconds < 2n ** 34n) {
    if (fraction === 0n && seconds < 2n ** 32n) return eightBytes("setBigUint64", seconds).subarray(4);
    return eightBytes("setBigUint64", (fraction << 34n) | seconds);
  }
  const bytes = new Uint8Array(12);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Number(fraction));
  view.setBigInt64(4, seconds);
  return bytes;
}

/** @param {"setBigUint64" | "setBigInt64"} set @param {bigint} value */
function eightBytes(set, value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer)[set](0, value);
  return bytes;
}

// Values out of msgpack. What is none throws.

/** Reads text, and refuses what is not UTF-8. */
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * @typedef {"getUint8" | "getUint16" | "getUint32" | "getInt8" | "getInt16" | "getInt32" | "getFloat32" | "getFloat64" | "getBigUint64"
 *   | "getBigInt64"} Getter
 * @typedef {[size: number, get: "getUint8" | "getUint16" | "getUint32" | "getInt8" | "getInt16" | "getInt32", make?: string]} Mark
 */

/** Reads one value. What ends too early throws a RangeError of the view. */
class Unpacking {
  #bytes;
  #view;
  #at = 0;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** @returns {any} */
  take() {
    const mark = this.#number("getUint8", 1);
    if (mark < 0x80) return mark;
    if (mark < 0x90) return this.#map(mark & 0x0f);
    if (mark < 0xa0) return this.#array(mark & 0x0f);
    if (mark < 0xc0) return this.#text(mark & 0x1f);
    if (mark >= 0xe0) return mark - 0x100;
    if (mark >= 0xd4 && mark < 0xd9) return this.#extension(FIXED_EXTENSIONS[mark - 0xd4]);
    switch (mark) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xca: return real(this.#number("getFloat32", 4));
      case 0xcb: return real(this.#number("getFloat64", 8));
      case 0xcf: return numberOf(this.#number("getBigUint64", 8));
      case 0xd3: return numberOf(this.#number("getBigInt64", 8));
      default:
    }
    if (!(mark in MARKS)) throw new TypeError(`no msgpack: 0x${mark.toString(16)}`);
    const [size, get, make] = MARKS[mark];
    const found = this.#number(get, size);
    switch (make) {
      case "text": return this.#text(found);
      case "bytes": return this.#raw(found).slice();
      case "array": return this.#array(found);
      case "map": return this.#map(found);
      case "extension": return this.#extension(found);
      default: return found;
    }
  }

  /** @param {number} count */
  #array(count) {
    const items = [];
    for (let index = 0; index < count; index += 1) items.push(this.take());
    return items;
  }

  /** @param {number} count */
  #map(count) {
    /** @type {[any, any][]} */
    const pairs = [];
    for (let index = 0; index < count; index += 1) pairs.push([this.take(), this.take()]);
    return pairs.every(([key]) => typeof key === "string") ? Object.fromEntries(pairs) : new Map(pairs);
  }

  /** @param {number} length */
  #text(length) {
    return UTF8.decode(this.#raw(length));
  }

  /** @param {number} length */
  #extension(length) {
    const code = this.#number("getInt8", 1);
    return fromExtension(code, this.#raw(length));
  }

  /** @param {number} length */
  #raw(length) {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new RangeError("it ends too early");
    return this.#bytes.subarray(start, this.#at);
  }

  /**
   * @template {Getter} Get
   * @param {Get} get @param {number} size @returns {ReturnType<DataView[Get]>}
   */
  #number(get, size) {
    const found = /** @type {ReturnType<DataView[Get]>} */ (this.#view[get](this.#at));
    this.#at += size;
    return found;
  }
}

/**
 * First bytes with a length or number behind them: its size, how it is read, and what it is the length of.
 * @type {Readonly<Record<number, Mark>>}
 */
const MARKS = Object.freeze({
  0xcc: [1, "getUint8"], 0xcd: [2, "getUint16"], 0xce: [4, "getUint32"],
  0xd0: [1, "getInt8"], 0xd1: [2, "getInt16"], 0xd2: [4, "getInt32"],
  0xd9: [1, "getUint8", "text"], 0xda: [2, "getUint16", "text"], 0xdb: [4, "getUint32", "text"],
  0xc4: [1, "getUint8", "bytes"], 0xc5: [2, "getUint16", "bytes"], 0xc6: [4, "getUint32", "bytes"],
  0xdc: [2, "getUint16", "array"], 0xdd: [4, "getUint32", "array"],
  0xde: [2, "getUint16", "map"], 0xdf: [4, "getUint32", "map"],
  0xc7: [1, "getUint8", "extension"], 0xc8: [2, "getUint16", "extension"], 0xc9: [4, "getUint32", "extension"],
});

/** @param {number} code @param {Uint8Array} bytes */
function fromExtension(code, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (code) {
    case EXTENSIONS.count: return new Count(view.getBigUint64(0));
    case EXTENSIONS.address: return new Address(addressText(bytes));
    case EXTENSIONS.subnet: return new Subnet(`${addressText(bytes.subarray(0, -1))}/${bytes.at(-1)}`);
    case EXTENSIONS.port: return new Port(view.getUint16(0), PROTOCOLS[bytes[2]] ?? "none");
    case EXTENSIONS.timestamp: return new Timestamp(view.getBigInt64(0));
    case EXTENSIONS.timespan: return new Timespan(view.getBigInt64(0));
    case EXTENSIONS.set: return new Set(new Unpacking(bytes).take());
    case EXTENSIONS.table: return tableOf(new Unpacking(bytes).take());
    case EXTENSIONS.time: return timeOf(view);
    case EXTENSIONS.enumeration: {
      try {
        return new Enum(UTF8.decode(bytes));
      } catch {
        return new Extension(code, bytes.slice());
      }
    }
    default: return new Extension(code, bytes.slice());
  }
}

/** @param {any[]} items */
function tableOf(items) {
  const table = new Table();
  for (let index = 0; index < items.length; index += 2) table.set(items[index], items[index + 1]);
  return table;
}

/** @param {DataView} view */
function timeOf(view) {
  let [seconds, fraction] = [0n, 0n];
  if (view.byteLength === 4) {
    seconds = BigInt(view.getUint32(0));
  } else if (view.byteLength === 8) {
    const whole = view.getBigUint64(0);
    [seconds, fraction] = [whole & (2n ** 34n - 1n), whole >> 34n];
  } else {
    [seconds, fraction] = [view.getBigInt64(4), BigInt(view.getUint32(0))];
  }
  const ns = seconds * SECOND_NS + fraction;
  return ns % MS_NS === 0n ? new Date(Number(ns / MS_NS)) : new PreciseDate(ns);
}

/** @param {number} number */
function real(number) {
  return Number.isSafeInteger(number) && !Object.is(number, -0) ? new Real(number) : number;
}

// Keys and values of stores as they travel: base64 of msgpack. Pure functions.

/** @param {unknown} value */
export function sent(value) {
  return base64Of(packed(value));
}

/** The value that has come as base64 of msgpack. @param {string | null} text @returns {any} */
export function received(text) {
  if (text === null) return null;
  try {
    return new Unpacking(bytesOf(text)).take();
  } catch (error) {
    throw new HubError(1007, `a value of a store is not understood: ${error instanceof Error ? error.message : error}`);
  }
}

// Bytes as base64 text. Pure functions.

/** A key or value as it travels. @param {Uint8Array} bytes */
function base64Of(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8_192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8_192));
  }
  return btoa(text);
}

/** @param {string} text */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// Typed values without their types. Pure function.

// Return a value without types, as messages have it: numbers, texts, arrays and objects, such as JSON has.
/** @param {any} value @returns {any} */
export function untyped(value) {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Real) return Number(value);
  if (value instanceof Uint8Array) return base64Of(value);
  if (value instanceof Extension) return base64Of(value.bytes);
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, untyped);
  if (typeof value.toJSON === "function") return value.toJSON();
  const pairs = value instanceof Map ? value : Object.entries(value);
  return Object.fromEntries(Array.from(pairs, ([key, inner]) => [String(untyped(key)), untyped(inner)]));
}
