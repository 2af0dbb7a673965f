/**
 * The list of messages: a ring of the newest thousand, and a view that draws only the rows in sight.
 *
 * Purpose: show any rate of messages at a fixed cost. A message that is shown costs one slot of the ring; a frame costs the
 * rows in sight (some 40), whatever the rate. Rows can be selected: by a click, further ones with Control, up to one with
 * Shift, and by the arrow keys. Owner of the state: `Stream`.
 *
 * Invariants: every row that was added is in the ring, was drawn on the screen, or is counted as skipped. The rows of the
 * ring have at most `RING_CHARACTERS` together: where they are long there are fewer. While held (by the button, or because
 * the reader has scrolled away from the newest) nothing moves; what comes then is skipped.
 *
 * Not here: where rows come from (`parts/feed.js`), what becomes of those selected (`selection.js`).
 */

import { visible } from "../../parts/visible.js";

export const RING_ROWS = 1_000;

/** Text of all rows of the ring, characters. */
const RING_CHARACTERS = 16 * 1024 * 1024;

/** Height of a row, CSS pixels: `--row-height` in styles/base.css. Fixed, so that a position is a multiplication. */
export const ROW_PX = 26;

/** Text of a value in a row, characters: more than fits the widest screen. */
const ROW_CHARACTERS = 600;

/** Rows kept ready above what fits, so that half rows at both ends are drawn. */
const SPARE_ROWS = 2;

/**
 * @typedef {object} Row
 * @property {string} topic
 * @property {string} text Of its value, as JSON; cut if it is not `whole`.
 * @property {boolean} whole
 * @property {number} characters Of the whole text.
 * @property {number} at When it came, or was recorded, milliseconds since 1970.
 * @property {number} [offset] In the journal.
 * @property {string[]} [labels]
 * @property {string} [sender]
 * @property {string} [to]
 */

class Ring {
  #rows = new Array(RING_ROWS);
  #added = 0;
  #length = 0;
  #characters = 0;

  get length() {
    return this.#length;
  }

  /** How many rows were ever added: the number of the newest one. */
  get added() {
    return this.#added;
  }

  /** Returns the rows that had to go. */
  add(row) {
    const gone = [];
    while (this.#length === RING_ROWS || (this.#length > 0 && this.#characters + row.text.length > RING_CHARACTERS)) {
      gone.push(this.#drop());
    }
    this.#rows[this.#added % RING_ROWS] = row;
    this.#added += 1;
    this.#length += 1;
    this.#characters += row.text.length;
    return gone;
  }

  /** 0 is the newest. */
  newest(index) {
    return index < this.#length ? this.#rows[(this.#added - 1 - index) % RING_ROWS] : undefined;
  }

  clear() {
    this.#rows.fill(undefined);
    this.#added = this.#length = this.#characters = 0;
  }

  #drop() {
    const slot = (this.#added - this.#length) % RING_ROWS;
    const row = this.#rows[slot];
    this.#rows[slot] = undefined;
    this.#length -= 1;
    this.#characters -= row.text.length;
    return row;
  }
}

export class Stream {
  skipped = 0;
  #ring = new Ring();
  #elements;
  #lines = []; // {root, time, topic, value, row}
  #drawn = new WeakSet();
  #selected = new Set();
  #anchor = null; // the row that was clicked last
  #onSelect;
  #paused = false;
  #scrollTop = 0;
  #changed = true;

  /**
   * Draws into `elements` (viewport, spacer, rows, empty).
   *
   * @param {(row: Row | null) => void} onSelect Called with the row that was clicked last, whenever other rows are selected.
   */
  constructor(elements, onSelect) {
    this.#elements = elements;
    this.#onSelect = onSelect;
    const { viewport, rows } = elements;
    viewport.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    viewport.addEventListener("keydown", (event) => this.#pressed(event));
    rows.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(event.target));
      if (line?.row) this.#choose(line.row, event.ctrlKey || event.metaKey, event.shiftKey);
    });
    new ResizeObserver(() => this.#resized()).observe(viewport);
  }

  get held() {
    return this.#paused || this.#scrollTop >= ROW_PX;
  }

  get length() {
    return this.#ring.length;
  }

  /** What is selected, or else all rows; oldest first, as far as they are here. */
  chosen() {
    const rows = Array.from({ length: this.#ring.length }, (_, index) => this.#ring.newest(index)).reverse();
    return this.#selected.size > 0 ? rows.filter((row) => this.#selected.has(row)) : rows;
  }

  get selected() {
    return this.#selected.size;
  }

  /** @param {Row} row */
  add(row) {
    if (this.held) {
      this.skipped += 1;
      return;
    }
    this.#put(row);
  }

  /** Show other rows, the first of them above all others. */
  replace(rows) {
    this.clear();
    for (const row of rows.slice(0, RING_ROWS).reverse()) this.#put(row);
  }

  #put(row) {
    for (const gone of this.#ring.add(row)) {
      if (!this.#drawn.has(gone)) this.skipped += 1;
      if (this.#selected.delete(gone)) this.#onSelect(null);
    }
    this.#changed = true;
  }

  /** Hold, or let go and return to the newest. */
  pause(paused) {
    this.#paused = paused;
    if (!paused) this.#elements.viewport.scrollTop = this.#scrollTop = 0;
    this.#changed = true;
  }

  clear() {
    this.#ring.clear();
    this.skipped = 0;
    this.#select([]);
    this.pause(this.#paused);
  }

  /** Draw what is in sight, if anything changed. Called once a frame; costs the rows in sight. */
  draw() {
    if (!this.#changed) return;
    this.#changed = false;
    const { spacer, rows, empty } = this.#elements;
    const first = Math.floor(this.#scrollTop / ROW_PX);
    spacer.style.height = `${this.#ring.length * ROW_PX}px`;
    rows.style.transform = `translateY(${first * ROW_PX}px)`;
    empty.hidden = this.#ring.length > 0;
    this.#lines.forEach((line, index) => {
      const row = this.#ring.newest(first + index);
      line.root.hidden = row === undefined;
      line.root.classList.toggle("odd", (this.#ring.added - first - index) % 2 === 1); // stripes move with their rows
      line.root.classList.toggle("selected", this.#selected.has(row));
      if (row !== undefined && line.row !== row) {
        this.#drawn.add(row);
        fill(line, row);
      }
      line.row = row;
    });
  }

  #choose(row, further, upTo) {
    const index = (wanted) => {
      for (let at = 0; at < this.#ring.length; at += 1) if (this.#ring.newest(at) === wanted) return at;
      return -1;
    };
    const from = this.#anchor === null ? -1 : index(this.#anchor);
    if (upTo && from >= 0) {
      const to = index(row);
      const [least, most] = from < to ? [from, to] : [to, from];
      this.#select(Array.from({ length: most - least + 1 }, (_, at) => this.#ring.newest(least + at)), row);
      return;
    }
    this.#anchor = row;
    if (!further) this.#select([row], row);
    else if (this.#selected.has(row)) this.#select([...this.#selected].filter((other) => other !== row), row);
    else this.#select([...this.#selected, row], row);
  }

  #select(rows, last = null) {
    this.#selected = new Set(rows);
    if (last === null) this.#anchor = null;
    this.#changed = true;
    this.#onSelect(last);
  }

  #pressed(event) {
    if (event.key === "Escape") return this.#select([]);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || this.#ring.length === 0) return undefined;
    event.preventDefault();
    let at = -1;
    while (at + 1 < this.#ring.length && this.#ring.newest(at) !== this.#anchor) at += 1;
    const next = this.#anchor === null ? 0 : Math.max(0, Math.min(this.#ring.length - 1, at + step));
    this.#choose(this.#ring.newest(next), false, false);
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
    const wanted = Math.min(RING_ROWS, Math.ceil(viewport.clientHeight / ROW_PX) + SPARE_ROWS);
    while (this.#lines.length < wanted) this.#lines.push(makeLine(rows));
    for (const { root } of this.#lines.splice(wanted)) root.remove();
    this.#changed = true;
  }
}

/** A colour for each topic's first components, so that topics of one kind look alike. 0 to 359, degrees. */
export function hue(topic) {
  let hash = 0;
  for (const character of topic.split("/", 3).join("/")) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
  return (hash * 137) % 360;
}

function makeLine(parent) {
  const [root, time, topic, value] = ["div", "span", "span", "span"].map((name) => document.createElement(name));
  root.className = "row";
  time.className = "time";
  topic.className = "topic";
  value.className = "value";
  root.append(time, topic, value);
  parent.append(root);
  return { root, time, topic, value, row: undefined };
}

function fill(line, row) {
  line.time.textContent = clock(row.at);
  line.time.title = row.offset === undefined ? "" : String(row.offset);
  line.topic.textContent = visible(row.topic);
  line.topic.style.setProperty("--hue", hue(row.topic));
  line.value.textContent = visible(row.text.slice(0, ROW_CHARACTERS));
}

function clock(at) {
  const time = new Date(at);
  const two = (number) => String(number).padStart(2, "0");
  const milliseconds = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${milliseconds}`;
}
