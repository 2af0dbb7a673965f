/** Types of values that JSON does not have. Frozen; equal ones have equal texts. */

import { checkedString } from "../checks.js";

/** The protocols of ports, by their numbers. */
export const PROTOCOLS = Object.freeze(/** @type {const} */ (["?", "tcp", "udp", "icmp"]));

/** @typedef {typeof PROTOCOLS[number]} Protocol */

/** A real that is whole, as 1.0: for a store another value than the integer 1. It calculates as the number it is. */
export class Real extends Number {}

/** A whole number from 0 to 2^64 - 1; `value` is a number, or a BigInt where that is not exact. */
export class Count {
  /** @param {number | bigint} value */
  constructor(value) {
    const whole = BigInt(value);
    if (whole < 0n || whole > U64_MAX) throw new RangeError(`a count is 0 to 2^64 - 1, not ${value}`);
    this.value = numberOf(whole);
    Object.freeze(this);
  }

  valueOf() {
    return this.value;
  }

  toString() {
    return String(this.value);
  }

  toJSON() {
    return typeof this.value === "bigint" ? String(this.value) : this.value;
  }
}

/** What is its text: the four below. Equal ones have equal texts. */
class Text {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return this.text;
  }
}

/** An address of IPv4 or IPv6: `new Address("2001:db8::1")`. */
export class Address extends Text {
  /** @param {string} text */
  constructor(text) {
    super(addressText(addressBytes(String(text))));
  }
}

/** A subnet: `new Subnet("10.0.0.0/8")`. What stands behind the prefix is set to 0. */
export class Subnet extends Text {
  /** @param {string} text */
  constructor(text) {
    const bytes = subnetBytes(String(text));
    super(`${addressText(bytes.subarray(0, -1))}/${bytes.at(-1)}`);
  }
}

/** A port, 0 to 65535, of "tcp", "udp", "icmp", or "?". */
export class Port extends Text {
  /** @param {number} number @param {Protocol} [protocol] */
  constructor(number, protocol = "?") {
    if (!(Number.isInteger(number) && number >= 0 && number < 65_536)) throw new RangeError(`no port: ${number}`);
    if (!PROTOCOLS.includes(protocol)) throw new RangeError(`no protocol of a port: ${protocol}`);
    super(`${number}/${protocol}`);
  }

  get number() { return Number.parseInt(this.text, 10); }

  /** @returns {Protocol} */
  get protocol() { return /** @type {Protocol} */ (this.text.slice(this.text.indexOf("/") + 1)); }
}

/** The name of an enum value, as `Notice::LOG`. */
export class Enum extends Text {
  /** @param {string} name */
  constructor(name) {
    super(checkedString(name));
  }
}

/** A number of nanoseconds, a BigInt: the two below. */
class Nanoseconds {
  /** @param {bigint | number} ns */
  constructor(ns) {
    this.ns = BigInt(ns);
    if (BigInt.asIntN(64, this.ns) !== this.ns) throw new RangeError(`${ns} ns are beyond 64 bits`);
    Object.freeze(this);
  }

  valueOf() {
    return this.ns;
  }
}

/** A moment, nanoseconds since 1970. */
export class Timestamp extends Nanoseconds {
  /** @param {Date} date */
  static of(date) {
    return new Timestamp(BigInt(date.getTime()) * MS_NS);
  }

  /** To the millisecond. */
  toDate() {
    return new Date(Number(floored(this.ns, MS_NS)));
  }

  toString() {
    const fraction = String(this.ns - floored(this.ns, SECOND_NS) * SECOND_NS).padStart(9, "0").replace(/0+$/, "");
    return this.toDate().toISOString().replace(/\.\d+Z$/, fraction ? `.${fraction}Z` : "Z");
  }

  toJSON() {
    return this.toString();
  }
}

/** A stretch of time, nanoseconds. */
export class Timespan extends Nanoseconds {
  /** @param {number} ms */
  static ofMs(ms) {
    return new Timespan(Math.round(ms * 1e6));
  }

  get ms() { return Number(this.ns) / 1e6; }

  toString() {
    return `${this.ns}ns`;
  }

  /** Seconds. */
  toJSON() {
    return Number(this.ns) / 1e9;
  }
}

/** Zeek's table: a `Map`. A `Map` that is none is a map of msgpack, and so is a plain object. */
export class Table extends Map {}

/** A time that is finer than a `Date`, which it is otherwise; `ns` counts from 1970, a BigInt. */
export class PreciseDate extends Date {
  /** @param {bigint} ns */
  constructor(ns) {
    super(Number(floored(ns, MS_NS)));
    this.ns = ns;
  }
}

/** An extension of msgpack that is none of the above; 10 is a string that is not UTF-8. */
export class Extension {
  /** @param {number} code @param {Uint8Array} bytes */
  constructor(code, bytes) {
    this.code = code;
    this.bytes = bytes;
    Object.freeze(this);
  }
}

// Addresses and subnets, as text and as bytes. Pure functions.

/**
 * 4 bytes or 16. What knows addresses of IPv6 best is the URL of this machine.
 * @param {string} text @returns {Uint8Array}
 */
export function addressBytes(text) {
  const parts = text.split(".");
  if (parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)) {
    return Uint8Array.from(parts, Number);
  }
  const host = /^[\da-f:.]*:[\da-f:.]*$/i.test(text) ? hostOf(text) : null;
  if (host === null) throw new TypeError(`no address: ${text}`);
  const [front, behind = null] = host.split("::").map((part) => part.split(":").filter(Boolean));
  const gap = behind === null ? [] : Array(8 - front.length - behind.length).fill("0");
  const groups = [...front, ...gap, ...(behind ?? [])].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

/** The one short form of an address of IPv6; null if it is none. @param {string} text @returns {string | null} */
function hostOf(text) {
  try {
    return new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    return null;
  }
}

/** @param {Uint8Array} bytes @returns {string} */
export function addressText(bytes) {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) throw new TypeError(`an address of ${bytes.length} bytes`);
  const groups = Array.from({ length: 8 }, (_, index) => (bytes[2 * index] << 8 | bytes[2 * index + 1]).toString(16));
  return hostOf(groups.join(":")) ?? "";
}

/** The address, and behind it how many bits of it count. @param {string} text */
export function subnetBytes(text) {
  const [, address, length] = /^(.+)\/(\d{1,3})$/.exec(text) ?? [];
  if (address === undefined) throw new TypeError(`no subnet: ${text}`);
  const bytes = addressBytes(address);
  if (Number(length) > 8 * bytes.length) throw new TypeError(`no subnet: ${text}`);
  return Uint8Array.of(...bytes.map((byte, index) => {
    const bits = Math.max(0, Math.min(8, Number(length) - 8 * index));
    return byte & (0xff00 >> bits);
  }), Number(length));
}

// Whole numbers of 64 bits, and nanoseconds. Pure functions.

/** The largest whole number of 64 bits, and nanoseconds. */
export const U64_MAX = 2n ** 64n - 1n;
export const MS_NS = 1_000_000n;
export const SECOND_NS = 1_000_000_000n;

/** A number where that is exact, else a BigInt. @param {bigint} whole */
export function numberOf(whole) {
  const number = Number(whole);
  return Number.isSafeInteger(number) ? number : whole;
}

/** The quotient, rounded down. @param {bigint} whole @param {bigint} by */
export function floored(whole, by) {
  const rest = ((whole % by) + by) % by;
  return (whole - rest) / by;
}
