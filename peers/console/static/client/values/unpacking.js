/**
 * Values out of msgpack. What is none throws.
 */

import { addressText } from "./addresses.js";
import { EXTENSIONS, FIXED_EXTENSIONS } from "./extensions.js";
import { MS_NS, numberOf, SECOND_NS } from "./numbers.js";
import {
  Address, Count, Enum, Extension, Port, PreciseDate, PROTOCOLS, Real, Subnet, Table, Timespan, Timestamp,
} from "./types.js";

/** Reads text, and refuses what is not UTF-8. */
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * @typedef {"getUint8" | "getUint16" | "getUint32" | "getInt8" | "getInt16" | "getInt32" | "getFloat32" | "getFloat64" | "getBigUint64"
 *   | "getBigInt64"} Getter
 *
 * @typedef {[size: number, get: "getUint8" | "getUint16" | "getUint32" | "getInt8" | "getInt16" | "getInt32", make?: string]} Mark
 */

/** Reads one value. What ends too early throws a RangeError of the view. */
export class Unpacking {
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
   * @param {Get} get
   * @param {number} size
   * @returns {ReturnType<DataView[Get]>}
   */
  #number(get, size) {
    const found = /** @type {ReturnType<DataView[Get]>} */ (this.#view[get](this.#at));
    this.#at += size;
    return found;
  }
}

/**
 * First bytes with a length or number behind them: its size, how it is read, and what it is the length of.
 *
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

/**
 * @param {number} code
 * @param {Uint8Array} bytes
 */
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
