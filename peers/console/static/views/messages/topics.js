/**
 * Which topics are busiest: counts per topic, and a table of the first twenty.
 *
 * Owner of the state: `Topics`. Bounded: at `KNOWN_TOPICS` distinct topics the quieter half is forgotten and its
 * messages are counted together as those of other topics; a forgotten topic starts at nothing when it comes back.
 * Cost: one map lookup a message; drawing sorts what is known, twice a second. Not here: who draws when.
 */

import { words } from "../../words.js";
import { hue } from "./stream.js";

const KNOWN_TOPICS = 10_000;
const SHOWN_TOPICS = 20;

export class Topics {
  #counts = new Map(); // topic → {topic, count, before}: `before` is the count at the last drawing
  #forgottenTopics = 0;
  #forgottenMessages = 0;
  #body;
  #note;
  #lines = [];
  #drawnAt = performance.now();

  /** @param choose Called with the topic of a clicked line. */
  constructor(body, note, choose) {
    this.#body = body;
    this.#note = note;
    body.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(event.target));
      if (line) choose(line.name.textContent);
    });
  }

  /** Distinct topics seen; those forgotten count once each time they were forgotten. */
  get size() {
    return this.#counts.size + this.#forgottenTopics;
  }

  count(topic) {
    const known = this.#counts.get(topic);
    if (known) {
      known.count += 1;
      return;
    }
    if (this.#counts.size >= KNOWN_TOPICS) this.#forget();
    this.#counts.set(topic, { topic, count: 1, before: 0 });
  }

  clear() {
    this.#counts.clear();
    this.#forgottenTopics = this.#forgottenMessages = 0;
  }

  draw() {
    const seconds = (performance.now() - this.#drawnAt) / 1000;
    this.#drawnAt = performance.now();
    const busiest = this.#sorted();
    const shown = busiest.slice(0, SHOWN_TOPICS);
    const total = busiest.reduce((sum, { count }) => sum + count, this.#forgottenMessages);
    while (this.#lines.length < shown.length) this.#lines.push(makeLine(this.#body));
    this.#lines.forEach((line, index) => {
      line.root.hidden = index >= shown.length;
      if (index < shown.length) fill(line, shown[index], total, seconds);
    });
    for (const known of busiest) known.before = known.count;
    this.#drawNote(busiest.slice(SHOWN_TOPICS));
  }

  #drawNote(rest) {
    const topics = rest.length + this.#forgottenTopics;
    const messages = rest.reduce((sum, { count }) => sum + count, this.#forgottenMessages);
    this.#note.hidden = topics === 0;
    this.#note.textContent = words.messages.others(messages, topics);
  }

  #sorted() {
    return [...this.#counts.values()].sort((one, other) => other.count - one.count);
  }

  #forget() {
    for (const { topic, count } of this.#sorted().slice(KNOWN_TOPICS / 2)) {
      this.#counts.delete(topic);
      this.#forgottenTopics += 1;
      this.#forgottenMessages += count;
    }
  }
}

function makeLine(parent) {
  const [root, name, count, rate] = ["tr", "td", "td", "td"].map((element) => document.createElement(element));
  name.className = "topic";
  root.append(name, count, rate);
  parent.append(root);
  return { root, name, count, rate };
}

/** The bar behind a line is the topic's share of all messages, so that even topics have short bars. */
function fill(line, { topic, count, before }, total, seconds) {
  if (line.name.textContent !== topic) {
    line.name.textContent = line.root.title = topic;
    line.name.style.setProperty("--hue", hue(topic));
  }
  line.count.textContent = count.toLocaleString();
  line.rate.textContent = Math.round((count - before) / Math.max(seconds, 0.001)).toLocaleString();
  line.root.style.setProperty("--share", `${(100 * count) / total}%`);
}
