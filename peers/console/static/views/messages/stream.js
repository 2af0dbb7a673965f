/**
 * The list of messages: the newest thousand, of which only the rows in sight are drawn; and the busiest topics.
 *
 * Every row that was added is in the list, was drawn, or is counted as skipped. While the list is held (by the button, or
 * because the reader has scrolled away from the newest) later rows are skipped.
 */

import { element, say } from "../../parts/element.js";
import { visible } from "../../parts/figures.js";
import { words } from "../../words.js";

/** @import { Busy, Row, Top } from "../../parts/sampler.js" */

const MOST_ROWS = 1_000;

/** Text of all rows, characters. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

/** Height of a row, CSS pixels: `--row-height` in styles/base.css. Fixed, so that a position is a multiplication. */
export const ROW_PX = 26;

/** Text of a value in a row, characters: more than fits the widest screen. */
const ROW_CHARACTERS = 600;

/** Rows kept ready above what fits, so that half rows at both ends are drawn. */
const SPARE_ROWS = 2;

/**
 * @typedef {{viewport: HTMLElement, spacer: HTMLElement, rows: HTMLElement, empty: HTMLElement}} Elements
 *   What is drawn into.
 * @typedef {{root: HTMLElement, time: HTMLElement, topic: HTMLElement, value: HTMLElement, hue: number,
 *   row: Row | undefined}} Line
 *   `hue`: Of the topic, as it was set last.
 */

export class Stream {
  skipped = 0;
  /** @type {Row[]} The newest last. */ #rows = [];
  #added = 0; // the number of the newest row
  #characters = 0;
  #elements;
  /** @type {Line[]} */ #lines = [];
  /** @type {WeakSet<Row>} */ #drawn = new WeakSet();
  /** @type {Set<Row>} */ #selected = new Set();
  /** @type {Row | null} The row that was clicked last. */
  #anchor = null;
  #onSelect;
  #paused = false;
  #scrollTop = 0;
  #changed = true;

  /**
   * @param {Elements} elements
   * @param {(row: Row | null) => void} onSelect Called with the row that was clicked last, whenever other rows are selected.
   */
  constructor(elements, onSelect) {
    this.#elements = elements;
    this.#onSelect = onSelect;
    const { viewport, rows } = elements;
    viewport.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    viewport.addEventListener("keydown", (event) => this.#pressed(event));
    rows.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(/** @type {Node} */ (event.target)));
      if (line?.row) this.#choose(line.row, event.ctrlKey || event.metaKey, event.shiftKey);
    });
    new ResizeObserver(() => this.#resized()).observe(viewport);
  }

  get held() { return this.#paused || this.#scrollTop >= ROW_PX; }

  get length() { return this.#rows.length; }

  /** What is selected, or else all rows; oldest first, as far as they are here. */
  chosen() {
    return this.#selected.size > 0 ? this.#rows.filter((row) => this.#selected.has(row)) : [...this.#rows];
  }

  get selected() { return this.#selected.size; }

  /** @param {Row} row */
  add(row) {
    if (this.held) {
      this.skipped += 1;
      return;
    }
    this.#put(row);
  }

  /** Show other rows, the first of them above all others. @param {Row[]} rows */
  replace(rows) {
    this.clear();
    for (const row of rows.slice(0, MOST_ROWS).reverse()) this.#put(row);
  }

  /** @param {Row} row */
  #put(row) {
    while (this.#rows.length === MOST_ROWS || (this.#rows.length > 0 && this.#characters + row.text.length > MOST_CHARACTERS)) {
      const gone = /** @type {Row} */ (this.#rows.shift());
      this.#characters -= gone.text.length;
      if (!this.#drawn.has(gone)) this.skipped += 1;
      if (this.#selected.delete(gone)) this.#onSelect(null);
    }
    this.#rows.push(row);
    this.#added += 1;
    this.#characters += row.text.length;
    this.#changed = true;
  }

  /** Hold, or let go and return to the newest. @param {boolean} paused */
  pause(paused) {
    this.#paused = paused;
    if (!paused) this.#elements.viewport.scrollTop = this.#scrollTop = 0;
    this.#changed = true;
  }

  clear() {
    this.#rows = [];
    this.#added = this.#characters = this.skipped = 0;
    this.#select([]);
    this.pause(this.#paused);
  }

  /** Draw what is in sight, if anything changed. Called once a frame; costs the rows in sight. */
  draw() {
    if (!this.#changed) return;
    this.#changed = false;
    const { spacer, rows, empty } = this.#elements;
    const first = Math.floor(this.#scrollTop / ROW_PX);
    spacer.style.height = `${this.#rows.length * ROW_PX}px`;
    rows.style.transform = `translateY(${first * ROW_PX}px)`;
    empty.hidden = this.#rows.length > 0;
    this.#lines.forEach((line, index) => {
      const row = this.#rows.at(-1 - first - index);
      line.root.hidden = row === undefined;
      line.root.classList.toggle("odd", (this.#added - first - index) % 2 === 1); // stripes move with their rows
      line.root.classList.toggle("selected", row !== undefined && this.#selected.has(row));
      if (row !== undefined && line.row !== row) {
        this.#drawn.add(row);
        fill(line, row);
      }
      line.row = row;
    });
  }

  /** @param {Row} row @param {boolean} further @param {boolean} upTo */
  #choose(row, further, upTo) {
    const from = this.#anchor === null ? -1 : this.#rows.indexOf(this.#anchor);
    if (upTo && from >= 0) {
      const to = this.#rows.indexOf(row);
      this.#select(this.#rows.slice(Math.min(from, to), Math.max(from, to) + 1), row);
      return;
    }
    this.#anchor = row;
    if (!further) this.#select([row], row);
    else if (this.#selected.has(row)) this.#select([...this.#selected].filter((other) => other !== row), row);
    else this.#select([...this.#selected, row], row);
  }

  /** @param {Row[]} rows @param {Row | null} [last] */
  #select(rows, last = null) {
    this.#selected = new Set(rows);
    if (last === null) this.#anchor = null;
    this.#changed = true;
    this.#onSelect(last);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key === "Escape") return this.#select([]);
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0 || this.#rows.length === 0) return undefined;
    event.preventDefault();
    const at = this.#anchor === null ? -1 : this.#rows.length - 1 - this.#rows.lastIndexOf(this.#anchor);
    const next = this.#anchor === null ? 0 : Math.max(0, Math.min(this.#rows.length - 1, at + step));
    this.#choose(/** @type {Row} */ (this.#rows.at(-1 - next)), false, false);
    const { viewport } = this.#elements;
    const top = next * ROW_PX;
    if (top < viewport.scrollTop) viewport.scrollTop = top;
    else if (top + ROW_PX > viewport.scrollTop + viewport.clientHeight) viewport.scrollTop = top + ROW_PX - viewport.clientHeight;
    return undefined;
  }

  #scrolled() {
    this.#scrollTop = Math.max(0, this.#elements.viewport.scrollTop);
    this.#changed = true;
  }

  #resized() {
    const { viewport, rows } = this.#elements;
    const wanted = Math.min(MOST_ROWS, Math.ceil(viewport.clientHeight / ROW_PX) + SPARE_ROWS);
    while (this.#lines.length < wanted) this.#lines.push(makeLine(rows));
    for (const { root } of this.#lines.splice(wanted)) root.remove();
    this.#changed = true;
  }
}

// A colour for each topic's first components, so that topics of one kind look alike. 0 to 359, degrees.
/** @param {string} topic */
function hue(topic) {
  let hash = 0;
  for (const character of topic.split("/", 3).join("/")) hash = (hash * 31 + Number(character.codePointAt(0))) >>> 0;
  return (hash * 137) % 360;
}

/** @param {HTMLElement} parent @returns {Line} */
function makeLine(parent) {
  const [root, time, topic, value] = ["div", "span", "span", "span"].map((name) => document.createElement(name));
  root.className = "row";
  time.className = "time";
  topic.className = "topic";
  value.className = "value";
  root.append(time, topic, value);
  parent.append(root);
  return { root, time, topic, value, hue: -1, row: undefined };
}

/** @param {Line} line @param {Row} row */
function fill(line, row) {
  say(line.time, clock(row.at));
  const offset = row.offset === undefined ? "" : String(row.offset);
  if (line.time.title !== offset) line.time.title = offset;
  say(line.topic, visible(row.topic));
  const colour = hue(row.topic);
  if (line.hue !== colour) line.topic.style.setProperty("--hue", String((line.hue = colour)));
  say(line.value, visible(row.text.slice(0, ROW_CHARACTERS)));
}

/** @param {number} at */
function clock(at) {
  const time = new Date(at);
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const milliseconds = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${milliseconds}`;
}

// The busiest topics that were received, as a table of twenty lines; the thread counts them.

/** So much of the end of a name is always in sight. */
const END_CHARACTERS = 12;

/** @typedef {{root: HTMLElement, name: HTMLElement, count: HTMLElement, rate: HTMLElement, topic: string}} TopicLine */

export class Topics {
  /** How many distinct topics there were. */
  size = 0;
  #body;
  #note;
  /** @type {TopicLine[]} */ #lines = [];

  /**
   * @param {HTMLElement} body @param {HTMLElement} note
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

  /** Draw the result of `TopicCounts.top`. @param {Top} top */
  draw({ shown, topics, otherTopics, otherMessages }) {
    this.size = topics;
    while (this.#lines.length < shown.length) this.#lines.push(makeTopicLine(this.#body));
    this.#lines.forEach((line, index) => {
      line.root.hidden = index >= shown.length;
      if (index < shown.length) fillTopic(line, shown[index]);
    });
    for (const line of this.#lines.splice(shown.length)) line.root.remove();
    this.#note.hidden = otherTopics === 0;
    say(this.#note, words.messages.others(otherMessages, otherTopics));
  }
}

/** @param {HTMLElement} parent @returns {TopicLine} */
function makeTopicLine(parent) {
  const [root, name, count, rate] = ["tr", "td", "td", "td"].map((element) => document.createElement(element));
  name.className = "topic";
  root.append(name, count, rate);
  parent.append(root);
  return { root, name, count, rate, topic: "" };
}

// The bar behind a line is the topic's share of all messages, so that even topics have short bars.
/** @param {TopicLine} line @param {Busy} busy */
function fillTopic(line, { topic, count, perSecond, share }) {
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
