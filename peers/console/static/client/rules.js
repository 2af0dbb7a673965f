/**
 * What is subscribed to: prefixes, or one rule, of labels, a prefix and a sender, or of a name that it is sent to.
 *
 * Pure functions. Not here: who holds which of them (`filter.js`).
 */

import { checkedLabels, checkedPrefixes, checkedText } from "./checks.js";

/**
 * @import { Wanted } from "../hub.js"
 *
 * @typedef {{labels: string[], prefix: string, sender: string, to?: undefined} | {to: string}} Rule
 *
 * @typedef {object} Keyed What is subscribed to: prefixes, or the text of one rule, that no topic begins with.
 * @property {string[]} keys
 * @property {Rule | null} rule Null for prefixes.
 *
 * @typedef {object} BesideMessage What a message bears.
 * @property {readonly string[]} labels
 * @property {string} sender
 * @property {string} to
 */

/**
 * @param {string | readonly string[]} prefixes
 * @returns {Keyed}
 */
export function wantedPrefixes(prefixes) {
  return { keys: checkedPrefixes(prefixes), rule: null };
}

/**
 * What is subscribed to: prefixes, or one rule, whose key is no topic's beginning.
 *
 * @param {Wanted} what
 * @returns {Keyed}
 */
export function wanted(what) {
  if (what === null || typeof what !== "object" || Array.isArray(what)) return wantedPrefixes(/** @type {string} */ (what));
  const { labels = [], prefix = "", sender = "", to = "" } = /** @type {import("../hub.js").Rule & {to?: string}} */ (what);
  /** @type {Rule} */
  const rule = to === ""
    ? { labels: checkedLabels(labels), prefix: checkedText(prefix, "prefix"), sender: checkedText(sender, "sender") }
    : { to: checkedText(to, "name") };
  if (rule.to === undefined && rule.labels.length === 0 && sender === "") {
    throw new TypeError("a rule has labels or a sender; without them, subscribe to its prefix");
  }
  return { keys: [`\0${JSON.stringify(rule)}`], rule };
}

/**
 * Fields of a publish message behind its topic.
 *
 * @param {readonly string[]} [labels]
 * @param {string} [sender]
 * @param {string} [to]
 */
export function textBeside(labels = [], sender = "", to = "") {
  if (labels.length === 0 && !sender && !to) return "";
  const list = checkedLabels(labels);
  const fields = { ...(list.length > 0 && { labels: list }), ...(sender && { sender }), ...(to && { to }) };
  return `,${JSON.stringify(fields).slice(1, -1)}`;
}

/**
 * @param {Rule} rule
 * @param {string} topic
 * @param {BesideMessage} beside
 */
export function isMatch(rule, topic, { labels, sender, to }) {
  if (rule.to !== undefined) return rule.to === to;
  return rule.labels.every((label) => labels.includes(label)) && topic.startsWith(rule.prefix)
    && (rule.sender === "" || rule.sender === sender);
}
