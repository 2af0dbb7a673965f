/**
 * NDJSON: a message as a line, a JSON object with its value last, as it is exported.
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
