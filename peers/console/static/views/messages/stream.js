/**
 * The live stream of messages: a ring of the newest thousand, and a view that draws only the rows in sight.
 *
 * Purpose: show any rate of messages at a fixed cost. A message costs one shortened JSON text and one slot of the ring;
 * a frame costs the rows in sight (some 40), whatever the rate. Owner of the state: `Stream`.
 *
 * Invariants: every message that was added is in the ring, was drawn on the screen, or is counted as skipped. A row
 * keeps at most `SHOWN_CHARACTERS` of its value, so the ring is bounded in bytes. While held (by the button, or because
 * the reader has scrolled away from the newest) nothing moves; what comes then is skipped.
 *
 * Not here: the connection, what is counted per topic.
 */

import { words } from "../../words.js";

export const RING_ROWS = 1_000;

/** Height of a row, CSS pixels: `--row-height` in styles/base.css. Fixed, so that a position is a multiplication. */
export const ROW_PX = 26;

/** Text of a value that is kept, characters: four screens of the inspector, 4 MB for the ring. */
const SHOWN_CHARACTERS = 4_096;

/** Text of a value in a row, characters: more than fits the widest screen. */
const ROW_CHARACTERS = 600;

/** Rows kept ready above what fits, so that half rows at both ends are drawn. */
const SPARE_ROWS = 2;

class Ring {
  #rows = new Array(RING_ROWS);
  #added = 0;

  get length() {
    return Math.min(this.#added, RING_ROWS);
  }

  /** How many rows were ever added: the number of the newest one. */
  get added() {
    return this.#added;
  }

  /** Returns the row that had to go, or undefined. */
  add(row) {
    const slot = this.#added % RING_ROWS;
    const gone = this.#rows[slot];
    this.#rows[slot] = row;
    this.#added += 1;
    return gone;
  }

  /** 0 is the newest. */
  newest(index) {
    return index < this.length ? this.#rows[(this.#added - 1 - index) % RING_ROWS] : undefined;
  }

  clear() {
    this.#rows.fill(undefined);
    this.#added = 0;
  }
}

export class Stream {
  skipped = 0;
  #ring = new Ring();
  #elements;
  #lines = []; // {root, time, topic, value, row}
  #paused = false;
  #scrollTop = 0;
  #changed = true;

  /** Draws into `elements` (viewport, spacer, rows, empty); calls `inspect` with topic and text of a clicked row. */
  constructor(elements, inspect) {
    this.#elements = elements;
    const { viewport, rows } = elements;
    viewport.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    rows.addEventListener("click", (event) => {
      const line = this.#lines.find(({ root }) => root.contains(event.target));
      if (line?.row) inspect(line.row);
    });
    new ResizeObserver(() => this.#resized()).observe(viewport);
  }

  get held() {
    return this.#paused || this.#scrollTop >= ROW_PX;
  }

  add(topic, value) {
    if (this.held) {
      this.skipped += 1;
      return;
    }
    const gone = this.#ring.add({ topic, text: shortened(value), at: Date.now(), drawn: false });
    if (gone && !gone.drawn) this.skipped += 1;
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
      if (row !== undefined && line.row !== row) fill(line, row);
      line.row = row;
    });
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
  row.drawn = true;
  line.time.textContent = clock(row.at);
  line.topic.textContent = row.topic;
  line.topic.style.setProperty("--hue", hue(row.topic));
  line.value.textContent = row.text.slice(0, ROW_CHARACTERS);
}

/** A short text that does not keep a long one in memory: what is cut off a string may hold on to all of it. */
function shortened(value) {
  const text = JSON.stringify(value);
  if (text.length <= SHOWN_CHARACTERS) return text;
  const kept = new TextDecoder().decode(new TextEncoder().encode(text.slice(0, SHOWN_CHARACTERS)));
  return `${kept}… ${words.messages.characters(text.length)}`;
}

function clock(at) {
  const time = new Date(at);
  const two = (number) => String(number).padStart(2, "0");
  const milliseconds = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${milliseconds}`;
}
