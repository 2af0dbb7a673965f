/**
 * Typed values as extensions of msgpack: their codes, as in docs/data-model.md, and their bytes. Pure functions.
 */

import { addressBytes, subnetBytes } from "./addresses.js";
import { floored, MS_NS, SECOND_NS } from "./numbers.js";
import { Address, Count, Enum, Extension, Port, PreciseDate, PROTOCOLS, Subnet, Timespan, Timestamp } from "./types.js";

/** Codes of docs/data-model.md, and msgpack's own for times. */
export const EXTENSIONS = Object.freeze({
  count: 1, address: 2, subnet: 3, port: 4, timestamp: 5, timespan: 6, enumeration: 7, set: 8, table: 9, time: -1,
});

export const FIXED_EXTENSIONS = [1, 2, 4, 8, 16];

/**
 * Code and payload of a typed value; null if it is none.
 *
 * @param {object} value
 * @returns {[code: number, bytes: Uint8Array] | null}
 */
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

/**
 * The time of msgpack, in the shortest of its three forms.
 *
 * @param {Date} date
 */
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

/**
 * @param {"setBigUint64" | "setBigInt64"} set
 * @param {bigint} value
 */
function eightBytes(set, value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer)[set](0, value);
  return bytes;
}
