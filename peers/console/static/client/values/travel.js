/**
 * Keys and values of stores as they travel: base64 of msgpack. Pure functions.
 */

import { HubError } from "../errors.js";
import { base64Of, bytesOf } from "./base64.js";
import { packed } from "./packing.js";
import { Unpacking } from "./unpacking.js";

/** @param {unknown} value */
export function sent(value) {
  return base64Of(packed(value));
}

/**
 * The value that has come as base64 of msgpack.
 *
 * @param {string | null} text
 * @returns {any}
 */
export function received(text) {
  if (text === null) return null;
  try {
    return new Unpacking(bytesOf(text)).take();
  } catch (error) {
    throw new HubError(1007, `a value of a store is not understood: ${error instanceof Error ? error.message : error}`);
  }
}
