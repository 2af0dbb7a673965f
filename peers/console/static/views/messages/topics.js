/**
 * The busiest topics of what came here, as a table of twenty lines. Owner of the state: its elements; what is counted is
 * the feed's (`parts/topic_counts.js`). Cost: the lines, twice a second.
 */

import { say } from "../../parts/element.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";
import { hue } from "./stream.js";

export class Topics {
  /** How many distinct topics there were. */
  size = 0;
  #body;
  #note;
  #lines = [];

  /** @param choose Called with the topic of a clicked line. */
  constructor(body, note, choose) {
    this.#body = body;
    this.#note = note;
    body.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(event.target));
      if (line) choose(line.topic);
    });
  }

  clear() {
    this.draw({ shown: [], topics: 0, otherTopics: 0, otherMessages: 0 });
  }

  /** Draw what `TopicCounts.top` has told. */
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

function makeLine(parent) {
  const [root, name, count, rate] = ["tr", "td", "td", "td"].map((element) => document.createElement(element));
  name.className = "topic";
  root.append(name, count, rate);
  parent.append(root);
  return { root, name, count, rate, topic: null };
}

/** The bar behind a line is the topic's share of all messages, so that even topics have short bars. */
function fill(line, { topic, count, perSecond, share }) {
  if (line.topic !== topic) {
    line.topic = topic;
    line.name.textContent = line.root.title = visible(topic);
    line.name.style.setProperty("--hue", hue(topic));
  }
  line.count.textContent = count.toLocaleString();
  line.rate.textContent = Math.round(perSecond).toLocaleString();
  line.root.style.setProperty("--share", `${100 * share}%`);
}
