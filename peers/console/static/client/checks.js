/** Checks of topics, prefixes, labels and values: invalid ones throw before anything is sent. */

import { HubError } from "./errors.js";

/** Topics and prefixes, bytes of UTF-8, as in the protocol. */
const TOPIC_BYTES = 1_024;

/** @param {unknown} text @returns {string} */
export function checkedString(text) {
  if (typeof text !== "string" || /\p{Cs}/u.test(text)) throw new TypeError("no text, or one with lone surrogates");
  return text;
}

/** @param {unknown} text @param {string} what @returns {string} */
export function checkedText(text, what) {
  if (typeof text !== "string") throw new TypeError(`a ${what} is text, not ${typeof text}`);
  if (/[\p{Cc}\p{Cs}]/u.test(text)) {
    throw new TypeError(`a ${what} has neither control characters nor lone surrogates`);
  }
  if (3 * text.length > TOPIC_BYTES && new TextEncoder().encode(text).length > TOPIC_BYTES) {
    throw new TypeError(`a ${what} is at most ${TOPIC_BYTES} bytes long`);
  }
  return text;
}

/** @param {unknown} topic */
export function checkedTopic(topic) {
  if (topic === "") throw new TypeError("a topic is not empty");
  return checkedText(topic, "topic");
}

/** @param {string | readonly string[]} prefixes */
export function checkedPrefixes(prefixes) {
  const list = [...new Set(Array.isArray(prefixes) ? prefixes : [prefixes])];
  if (list.length === 0) throw new TypeError("no prefix; the empty text matches every topic");
  return list.map((prefix) => checkedText(prefix, "prefix"));
}

/** @param {readonly string[]} labels */
export function checkedLabels(labels) {
  if (typeof labels === "string") throw new TypeError("labels are a list");
  return [...new Set(labels)].map((label) => checkedText(label, "label")).sort();
}

/** @param {unknown} value @returns {string} */
export function jsonOf(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return text;
}

/**
 * @throws {HubError} 1009
 * @param {string} topic @param {string} text
 * @param {number} [limitBytes] The largest message that the hub takes; unknown without a connection.
 */
export function assertFits(topic, text, limitBytes = Infinity) {
  const roomBytes = limitBytes - 3 * topic.length - 80; // beside topic and value stand the names of the fields
  if (3 * text.length <= roomBytes) return; // no character takes more than three bytes
  if (new TextEncoder().encode(text).length > roomBytes) {
    throw new HubError(1009, `the value is larger than this hub accepts (${limitBytes} bytes a message)`);
  }
}
