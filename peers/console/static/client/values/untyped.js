/**
 * Typed values without their types. Pure function.
 */

import { base64Of } from "./base64.js";
import { Extension, Real } from "./types.js";

/**
 * Return a value without types, as messages have it: numbers, texts, arrays and objects, such as JSON has.
 *
 * @param {any} value
 * @returns {any}
 */
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
