/**
 * The tree of topics: nodes with rates and subscribers, opened a level at a time.
 *
 * ```
 * ▾ /zeek/        9.2/s   1.4 KiB/s   3      node: a prefix; opens with its children
 *   ▸ /dns/       8.1/s   1.2 KiB/s   2
 *     /conn       1.1/s   180 B/s     2      topic: Enter opens its page
 * ```
 *
 * Keys, as trees have them: up and down, right opens or goes in, left closes or goes out.
 */

import { element, say } from "../../parts/element.js";
import { bytes, short, visible, whole } from "../../parts/figures.js";
import { words } from "../../words.js";

/** Most rows in sight. */
const SHOWN = 2_000;

/** Most levels that are opened for a topic in the address; each is asked for. */
const REVEALED = 16;

/**
 * @import { Topics as Level, OtherTopics, TopicRow } from "../../feeds/services.d.ts"
 *
 * @typedef {"rate" | "bytes" | "topics" | "name"} Order
 *
 * @typedef {{depth: number, name: string, isOpen: boolean, isOthers: boolean}} Drawn
 *   Beside what the hub tells of a row. `isOthers`: Whether it stands for those that are not told of.
 *
 * @typedef {TopicRow & Drawn} Shown
 *
 * @typedef {{root: HTMLElement, mark: HTMLElement, name: HTMLElement, messages: HTMLElement, size: HTMLElement,
 *   subscribers: HTMLElement, row: Shown}} Line
 *   The elements of a row in sight.
 */

/** @type {Record<Order, (one: TopicRow, other: TopicRow) => number>} */
const ORDERS = {
  rate: (one, other) => other.messages_per_s - one.messages_per_s || other.messages - one.messages,
  bytes: (one, other) => other.bytes_per_s - one.bytes_per_s || other.messages - one.messages,
  topics: (one, other) => other.topics - one.topics || other.messages_per_s - one.messages_per_s,
  name: (one, other) => (one.prefix < other.prefix ? -1 : 1),
};

export class Tree {
  /** Prefixes that are open, those under which is asked. */
  open = new Set([""]);
  /** @type {Map<string | null, Level>} By prefix; null for what was found. */
  #levels = new Map();
  /** @type {Order} */ #order = "rate";
  /** @type {Line[]} */ #lines = [];
  #at = ""; // the prefix of the row that the keys are at
  /** @type {string | null} */ #chosen = null;
  #isFound = false;
  #look;
  #changed;

  /**
   * @param {(prefix: string, isTopic: boolean) => void} look Called with what is looked at.
   * @param {() => void} changed Called when other nodes are open.
   * @param {AbortSignal} signal
   */
  constructor(look, changed, signal) {
    this.#look = look;
    this.#changed = changed;
    this.element = element("div", {
      id: "topic-tree", class: "topic-tree mono", role: "tree", tabindex: 0, "aria-label": words.topics.title, signal,
      on: { click: (event) => this.#clicked(event), keydown: (event) => this.#pressed(event) },
    });
  }

  /** @param {Order} order */
  sort(order) {
    this.#order = order;
    this.draw();
  }

  // What stands under a prefix, as the hub has told it.
  /** @param {string} prefix @param {Level} level */
  set(prefix, level) {
    this.#levels.set(prefix, level);
  }

  // Show what was found, or, with null, the tree.
  /** @param {Level | null} level */
  find(level) {
    this.#isFound = level !== null;
    if (level !== null) this.#levels.set(null, level);
    else this.#levels.delete(null);
    this.draw();
  }

  /** Nothing is known any more. */
  clear() {
    this.#levels.clear();
    this.open = new Set([""]);
    this.draw();
  }

  // Open what a topic stands under, for a page opened by its address.
  /** @param {string} topic */
  reveal(topic) {
    let at = 0;
    for (let level = 0; level < REVEALED; level += 1) {
      at = topic.indexOf("/", at + 1);
      if (at < 0 || at === topic.length - 1) return;
      this.open.add(topic.slice(0, at + 1));
    }
  }

  // Show which row is looked at.
  /** @param {string} prefix */
  mark(prefix) {
    this.#chosen = prefix;
    this.draw();
  }

  draw() {
    const wanted = this.#isFound ? this.#level(null, 0) : this.#level("", 0);
    const rows = wanted.slice(0, SHOWN);
    for (const row of rows.slice(this.#lines.length)) this.#lines.push(this.#line(row));
    for (const { root } of this.#lines.splice(rows.length)) root.remove();
    rows.forEach((row, index) => this.#fill(this.#lines[index], row));
    if (rows.length > 0 && !rows.some(({ prefix }) => prefix === this.#at)) this.#at = rows[0].prefix;
    this.#drawFocus();
  }

  /** @param {string | null} prefix @param {number} depth @returns {Shown[]} */
  #level(prefix, depth) {
    const level = this.#levels.get(prefix);
    if (level === undefined) return [];
    /** @type {Shown[]} */
    const rows = [];
    for (const row of [...level.rows].sort(ORDERS[this.#order])) {
      const isOpen = !row.is_topic && this.open.has(row.prefix);
      rows.push({ ...row, depth, isOpen, isOthers: false, name: prefix === null ? row.prefix : row.prefix.slice(prefix.length) || row.prefix });
      if (isOpen) rows.push(...this.#level(row.prefix, depth + 1));
    }
    if (level.others) rows.push(othersOf(level.others, `${prefix}\n`, depth));
    return rows;
  }

  /** @param {Shown} row @returns {Line} */
  #line(row) {
    const span = (/** @type {string} */ name) => element("span", { class: name });
    const spans = { mark: span("mark"), name: span("name cut"), messages: span("number"), size: span("number"), subscribers: span("number") };
    const root = element("div", { class: "node", role: "treeitem" }, ...Object.values(spans));
    this.element.append(root);
    return { root, row, ...spans };
  }

  /** @param {Line} line @param {Shown} row */
  #fill(line, row) {
    const { root } = line;
    line.row = row;
    root.dataset.prefix = row.prefix;
    root.style.setProperty("--depth", String(row.depth));
    root.setAttribute("aria-level", String(row.depth + 1));
    root.setAttribute("aria-selected", String(row.prefix === this.#chosen));
    const opens = !row.is_topic && !row.isOthers;
    if (opens) root.setAttribute("aria-expanded", String(row.isOpen));
    else root.removeAttribute("aria-expanded");
    root.classList.toggle("others", row.isOthers);
    say(line.mark, opens ? (row.isOpen ? "▾" : "▸") : "");
    say(line.name, visible(row.name));
    line.name.title = row.isOthers ? "" : `${visible(row.prefix)} · ${words.topics.has(whole(row.topics))}`;
    say(line.messages, `${short(row.messages_per_s)}/s`);
    say(line.size, `${bytes(row.bytes_per_s)}/s`);
    say(line.subscribers, row.subscribers === null ? "" : whole(row.subscribers));
  }

  #drawFocus() {
    for (const { root, row } of this.#lines) {
      const isAt = row.prefix === this.#at;
      root.classList.toggle("at", isAt);
      if (!isAt) continue;
      root.id = "topic-at";
      this.element.setAttribute("aria-activedescendant", "topic-at");
    }
    for (const { root, row } of this.#lines) if (row.prefix !== this.#at) root.removeAttribute("id");
  }

  /** @param {Event} event */
  #clicked(event) {
    const line = this.#lines.find(({ root }) => root.contains(/** @type {Node} */ (event.target)));
    if (!line || line.row.isOthers) return;
    this.#at = line.row.prefix;
    if (!line.row.is_topic && event.target === line.mark) this.#toggle(line.row);
    else this.#choose(line.row);
  }

  /** @param {Shown} row */
  #choose(row) {
    if (!row.is_topic && !row.isOpen) this.#toggle(row);
    this.#look(row.prefix, row.is_topic);
    this.draw();
  }

  /** @param {Shown} row */
  #toggle(row) {
    if (this.open.has(row.prefix)) this.open.delete(row.prefix);
    else this.open.add(row.prefix);
    this.#changed();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const rows = this.#lines.map(({ row }) => row);
    const index = rows.findIndex(({ prefix }) => prefix === this.#at);
    if (index < 0) return;
    const row = rows[index];
    const go = (/** @type {number} */ to) => {
      this.#at = rows[Math.max(0, Math.min(rows.length - 1, to))].prefix;
      this.#drawFocus();
      this.#lines.find((line) => line.row.prefix === this.#at)?.root.scrollIntoView({ block: "nearest" });
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowDown: () => go(index + 1),
      ArrowUp: () => go(index - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => {
        if (row.is_topic || row.isOthers) return;
        if (row.isOpen) go(index + 1);
        else this.#toggle(row);
      },
      ArrowLeft: () => {
        if (row.isOpen) this.#toggle(row);
        else go(rows.findLastIndex((other, at) => at < index && other.depth < row.depth));
      },
      Enter: () => {
        if (!row.isOthers) this.#choose(row);
      },
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}

/**
 * The line of those that are not told of.
 * @param {OtherTopics} others
 * @param {string} prefix Of no topic.
 * @param {number} depth
 * @returns {Shown}
 */
function othersOf(others, prefix, depth) {
  const name = words.topics.others(others.nodes);
  return { ...others, prefix, name, depth, is_topic: false, messages: 0, subscribers: null, isOpen: false, isOthers: true };
}
