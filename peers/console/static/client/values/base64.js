/**
 * Bytes as base64 text. Pure functions.
 */

/**
 * A key or value as it travels.
 *
 * @param {Uint8Array} bytes
 */
export function base64Of(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8_192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8_192));
  }
  return btoa(text);
}

/** @param {string} text */
export function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
