/**
 * NDJSON: a message as a line, a JSON object with its value last, as it is exported; and whether that is what was published.
 *
 * Pure.
 */

/**
 * @typedef {object} Line
 * @property {string} topic
 * @property {number} at Milliseconds since 1970.
 * @property {string} text Its value, as JSON.
 * @property {number} [offset]
 * @property {readonly string[]} [labels]
 * @property {string | null} [sender]
 * @property {string | null} [to]
 */

/**
 * Return the line of a message.
 *
 * @param {Line} message
 */
export function lineOf({ topic, at, offset, labels, sender, to, text }) {
  const beside = { topic, time: new Date(at).toISOString(), offset, labels: labels?.length ? labels : undefined, sender: sender || undefined, to: to || undefined };
  return `${JSON.stringify(beside).slice(0, -1)},"value":${text}}\n`;
}

/** Only a text like this one has a number that is not held exactly; so that few values are walked over. */
const LONG_NUMBER = /\d{16}|e\+/;

/**
 * Whether a value has whole numbers beyond 2^53, of which JavaScript keeps the nearest that it has.
 *
 * @param {any} value
 * @param {string} text The value, as JSON.
 */
export function isRounded(value, text) {
  return LONG_NUMBER.test(text) && hasUnsafe(value);
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function hasUnsafe(value) {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnsafe);
}
