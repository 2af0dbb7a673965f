/**
 * The busiest topics of what came here, as a table of twenty lines. Owner of the state: its elements; what is counted is
 * the feed's (`parts/topic_counts.js`). Cost: the lines, twice a second.
 */

import { element, say } from "../../parts/element.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";
import { hue } from "./stream.js";

/** So much of the end of a name is always in sight. */
const END_CHARACTERS = 12;

/**
 * @import { Busy, Top } from "../../parts/topic_counts.js"
 *
 * @typedef {object} Line
 * @property {HTMLElement} root
 * @property {HTMLElement} name
 * @property {HTMLElement} count
 * @property {HTMLElement} rate
 * @property {string} topic
 */

export class Topics {
  /** How many distinct topics there were. */
  size = 0;
  #body;
  #note;
  /** @type {Line[]} */
  #lines = [];

  /**
   * @param {HTMLElement} body
   * @param {HTMLElement} note
   * @param {(topic: string) => void} choose Called with the topic of a clicked line.
   */
  constructor(body, note, choose) {
    this.#body = body;
    this.#note = note;
    body.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(/** @type {Node} */ (event.target)));
      if (line) choose(line.topic);
    });
  }

  clear() {
    this.draw({ shown: [], topics: 0, otherTopics: 0, otherMessages: 0 });
  }

  /**
   * Draw what `TopicCounts.top` has told.
   *
   * @param {Top} top
   */
  draw({ shown, topics, otherTopics, otherMessages }) {
    this.size = topics;
    while (this.#lines.length < shown.length) this.#lines.push(makeLine(this.#body));
    this.#lines.forEach((line, index) => {
      line.root.hidden = index >= shown.length;
      if (index < shown.length) fill(line, shown[index]);
    });
    for (const line of this.#lines.splice(shown.length)) line.root.remove();
    this.#note.hidden = otherTopics === 0;
    say(this.#note, words.messages.others(otherMessages, otherTopics));
  }
}

/**
 * @param {HTMLElement} parent
 * @returns {Line}
 */
function makeLine(parent) {
  const [root, name, count, rate] = ["tr", "td", "td", "td"].map((element) => document.createElement(element));
  name.className = "topic";
  root.append(name, count, rate);
  parent.append(root);
  return { root, name, count, rate, topic: "" };
}

/**
 * The bar behind a line is the topic's share of all messages, so that even topics have short bars.
 *
 * @param {Line} line
 * @param {Busy} busy
 */
function fill(line, { topic, count, perSecond, share }) {
  if (line.topic !== topic) {
    line.topic = topic;
    const name = visible(topic);
    const at = Math.max(0, name.length - END_CHARACTERS);
    line.name.replaceChildren(element(
      "span", {},
      element("span", { class: "beginning" }, name.slice(0, at)), element("span", { class: "end" }, name.slice(at)),
    ));
    line.root.title = name;
    line.name.style.setProperty("--hue", String(hue(topic)));
  }
  say(line.count, count.toLocaleString());
  say(line.rate, Math.round(perSecond).toLocaleString());
  line.root.style.setProperty("--share", `${100 * share}%`);
}
