/** Topics: a tree with rates (`$hub/topics`, a level at a time, every two seconds), and a page of one topic. */

import { History } from "../feeds/history.js";
import { Chart, STEPS } from "../parts/chart.js";
import { complain, element, form, heads, say } from "../parts/element.js";
import { Feed } from "../parts/feed.js";
import { bytes, complaint, exact, moment, percent, perSecond, short, visible, whole } from "../parts/figures.js";
import { poll } from "../parts/timing.js";
import { valueTree } from "../parts/value_tree.js";
import { words } from "../words.js";

/**
 * @import { OtherTopics, TopicRow, Topics as Level } from "../feeds/services.d.ts"
 * @import { Told } from "../parts/feed.js"
 * @import { Field, Row } from "../parts/sampler.js"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.topics;
const TOPICS_TOPIC = "$hub/topics";

/** How often open levels are asked for, milliseconds. */
const ASK_MS = 2_000;

/** Levels that are asked for at one time, as the hub answers so many requests a turn. */
const LEVELS = 12;

/** @type {import("../shell/views.js").View} */
export const topics = {
  name: "topics",
  title: words.topics.title,
  isFor: (session) => session.mayAsk(TOPICS_TOPIC) && session.may("subscribe"),
  open: (shell, signal) => new Topics(shell, signal),
};

class Topics {
  #shell;
  #search = "";
  #signal;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    this.#signal = signal;
    this.detail = new Detail(shell, signal);
    this.tree = new Tree((prefix, isTopic) => this.#look(prefix, isTopic), () => this.#ask(), signal);
    this.told = element("p", { id: "topics-told", class: "quiet told-line", role: "status" });
    this.problem = element("p", { id: "topics-problem", class: "notice", role: "alert", hidden: true });
    const go = () => this.#shell.go("topics", [], { search: this.search.value, topic: this.#topic });
    this.search = element("input", { id: "topics-search", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.searchHint, "aria-label": said.search, "data-search": true });
    this.order = element(
      "select", { id: "topics-order", "aria-label": said.order, signal, on: { change: () => this.tree.sort(/** @type {Order} */ (this.order.value)) } },
      ...Object.entries(said.orders).map(([value, text]) => element("option", { value }, text)),
    );
    this.element = element(
      "div", { class: "topics" },
      element(
        "section", { class: "card", "aria-label": said.title },
        form(
          go, { id: "topics-filter", signal },
          this.search, element("button", { type: "submit" }, said.find), element("span", { class: "spring" }), this.order,
        ),
        this.problem,
        element("div", { class: "node heads", "aria-hidden": "true" }, element("span"), ...said.columns.map((it) => element("span", {}, it))),
        this.tree.element, this.told,
      ),
      this.detail.element,
    );
    shell.session.onReady(() => this.#ask(), signal);
    poll(shell.session, ASK_MS, () => this.#askAll(), signal, (error) => complain(this.problem, error));
  }

  #topic = "";

  /** @param {Place} place */
  show({ parameters }) {
    const search = parameters.get("search") ?? "";
    this.search.value = search;
    const topic = parameters.get("topic") ?? "";
    if (topic) this.detail.show(topic, !topic.endsWith("/"));
    if (topic !== this.#topic) this.tree.reveal(topic);
    this.#topic = topic;
    this.tree.mark(this.#topic);
    if (search === this.#search) return;
    this.#search = search;
    if (!search) this.tree.find(null);
    this.#ask();
  }

  /** @param {string} prefix @param {boolean} isTopic */
  #look(prefix, isTopic) {
    this.detail.show(prefix, isTopic);
    this.#shell.go("topics", [], { search: this.#search, topic: prefix });
  }

  #ask() {
    this.#askAll().catch((error) => {
      if (!this.#signal.aborted && this.#shell.session.isOpen) complain(this.problem, error);
    });
  }

  async #askAll() {
    const { session } = this.#shell;
    const search = this.#search;
    if (search) {
      const level = await session.ask(TOPICS_TOPIC, { search });
      if (search !== this.#search) return;
      this.tree.find(level);
      this.#say(level);
      return;
    }
    const open = [...this.tree.open];
    for (let first = 0; first < open.length && !this.#signal.aborted; first += LEVELS) {
      await Promise.all(open.slice(first, first + LEVELS).map(async (prefix) => {
        const level = await session.ask(TOPICS_TOPIC, { under: prefix });
        this.tree.set(prefix, level);
        if (prefix === "") this.#say(level);
      }));
    }
    this.tree.draw();
  }

  /** @param {Level} level */
  #say({ counted, rows }) {
    complain(this.problem, null);
    if (rows.length === 0) say(this.told, this.#search ? said.notFound : said.none);
    else say(this.told, said.has(whole(counted)));
  }
}

// One topic: its last ten minutes, its last value, its fields, and live charts of chosen fields. Nothing is
// subscribed to before it is asked for.

/** The hub has a new point of a topic's history every five seconds, milliseconds. */
const DETAIL_ASK_MS = 5_000;

/** Samples in the chart of fields: five minutes, at two samples a second. */
const SAMPLES = 600;

/** Fields that are charted at one time. */
const PICKED = 5;
const COLOURS = ["--accent", "--good", "--waiting", "--bad", "--quiet"];

class Detail {
  #shell;
  #signal;
  /** @type {string | null} */ #prefix = null;
  /** @type {AbortController | null} Of the topic that is looked at. */
  #ending = null;
  /** @type {Feed | null} */ #feed = null;
  #isTopic = false;
  #history = new History();
  /** @type {Row | null} The last one, if it is not drawn yet. */
  #row = null;
  #shownAt = 0; // of the value that is shown, milliseconds since 1970
  /** @type {Field[]} */ #fields = [];
  /** @type {string[]} Paths. */
  #picked = [];
  /** @type {number[]} */ #times = [];
  /** @type {Map<string, number | undefined>[]} Fields by path, for each time. */
  #samples = [];
  /** @type {Chart | null} */ #chart = null;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    this.#signal = signal;
    this.name = element("h2", { id: "topic-name", class: "mono name" });
    this.told = element("p", { id: "topic-told", class: "quiet", role: "status" });
    this.watch = element("button", { id: "topic-watch", type: "button", class: "primary", signal, on: { click: () => this.#turn() } }, said.watch);
    this.stream = element("button", { id: "topic-stream", type: "button", signal, on: { click: () => shell.go("messages", [], { prefix: this.#prefix }) } }, said.stream);
    const { charts, lines } = words.overview;
    this.charts = /** @type {const} */ ([
      [new Chart(charts.messages, [{ name: lines.in_messages, colour: "--accent", filled: true }], perSecond(short), STEPS.parts, "topic-rates", signal), "in_messages"],
      [new Chart(charts.bytes, [{ name: lines.in_bytes, colour: "--accent", filled: true }], perSecond(bytes), STEPS.bytes, "topic-rates", signal), "in_bytes"],
    ]);
    this.lately = element("section", { id: "topic-history", class: "charts", "aria-label": said.history, hidden: true }, ...this.charts.map(([chart]) => chart.element));
    this.noHistory = element("p", { id: "topic-no-history", class: "quiet told-line", hidden: true }, said.noHistory);
    this.at = element("p", { id: "topic-at-time", class: "quiet" });
    this.last = element("div", { id: "topic-last", class: "holder" });
    this.rows = element("tbody", { id: "topic-fields", signal, on: { change: (event) => this.#pick(event) } });
    this.fieldsTold = element("p", { id: "topic-fields-told", class: "quiet" });
    this.plot = element("div", { id: "topic-chart" });
    this.watched = element(
      "div", { class: "watched", hidden: true },
      this.plot,
      element("h3", {}, said.last), this.at, this.last,
      element("h3", {}, said.fields), this.fieldsTold,
      element("table", { class: "fields" }, heads(said.heads), this.rows),
    );
    this.element = element(
      "section", { id: "topic-detail", class: "card detail", "aria-label": said.detail, hidden: true },
      this.name,
      element("div", { class: "toolbar" }, this.watch, this.stream, this.told),
      this.lately, this.noHistory,
      this.watched,
    );
    poll(shell.session, DETAIL_ASK_MS, () => this.#ask(), signal);
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  /** Look at a prefix, or a topic. @param {string} prefix @param {boolean} isTopic */
  show(prefix, isTopic) {
    if (prefix === this.#prefix) return;
    this.#stop();
    this.#prefix = prefix;
    this.#isTopic = isTopic;
    this.#history.forget();
    this.lately.hidden = this.noHistory.hidden = true;
    this.#ask().catch(() => undefined); // five seconds later it is asked again
    this.element.hidden = false;
    this.name.textContent = visible(prefix);
    this.watch.hidden = !isTopic || !this.#shell.session.may("subscribe");
    this.watched.hidden = true;
    say(this.watch, words.topics.watch);
    say(this.told, isTopic ? words.topics.closed : words.topics.isPrefix);
  }

  async #ask() {
    const topic = this.#prefix;
    if (topic === null || !this.#isTopic || !this.#shell.session.isOpen) return;
    const { history } = await this.#shell.session.ask(TOPICS_TOPIC, { under: topic });
    if (topic !== this.#prefix) return;
    this.lately.hidden = history === null;
    this.noHistory.hidden = history !== null;
    if (history === null) return;
    this.#history.take(history);
    const { times } = this.#history;
    for (const [chart, figure] of this.charts) chart.set(times, [this.#history.values(figure)]);
  }

  #turn() {
    if (this.#feed !== null) {
      this.#stop();
      say(this.watch, words.topics.watch);
      say(this.told, words.topics.stopped);
      return;
    }
    this.#begin();
  }

  #begin() {
    this.#ending = new AbortController();
    this.#row = null;
    this.#fields = [];
    this.#picked = [];
    this.#times = [];
    this.#samples = [];
    this.rows.replaceChildren();
    this.last.replaceChildren();
    say(this.at, "");
    say(this.fieldsTold, "");
    say(this.watch, words.topics.unwatch);
    say(this.told, words.topics.waits);
    this.watched.hidden = false;
    this.#feed = new Feed(this.#shell.session.token, {
      rows: (told) => this.#take(told),
      fields: (told) => this.#takeFields(told),
      problem: (problem) => say(this.told, complaint(problem)),
    }, this.#ending.signal);
    this.#feed.follow({ prefix: this.#prefix ?? "", exact: true, withFields: true });
  }

  #stop() {
    this.#ending?.abort();
    this.#ending = this.#feed = this.#chart = null;
    this.plot.replaceChildren();
  }

  /** @param {Told["rows"]} told */
  #take({ rows, received }) {
    say(this.told, words.topics.received(whole(received)));
    this.#row = rows.at(-1) ?? this.#row;
  }

  /** The last value; it stands still while one is at it with the pointer, or with keys. */
  #drawLast() {
    const row = this.#row;
    if (row === null) return;
    if (this.last.matches(":hover") || this.last.contains(document.activeElement)) {
      say(this.at, words.topics.held(moment(this.#shownAt / 1000)));
      return;
    }
    this.#row = null;
    this.#shownAt = row.at;
    say(this.at, moment(row.at / 1000));
    if (row.whole) this.last.replaceChildren(valueTree(JSON.parse(row.text)));
    else this.last.replaceChildren(element("pre", {}, visible(row.text.slice(0, 10_000)), `… ${words.values.characters(row.characters)}`));
  }

  /** @param {Told["fields"]} told */
  #takeFields({ fields, values, leftOut }) {
    this.#fields = fields;
    if (values > 0) say(this.fieldsTold, words.topics.seen(whole(values), leftOut));
    this.#drawLast();
    this.#drawFields();
    this.#times.push(Date.now() / 1000);
    this.#samples.push(new Map(fields.map(({ path, last }) => [path, last])));
    if (this.#times.length > SAMPLES) {
      this.#times.shift();
      this.#samples.shift();
    }
    this.#drawChart();
  }

  #drawFields() {
    while (this.rows.childElementCount < this.#fields.length) this.rows.append(fieldRow());
    while (this.rows.childElementCount > this.#fields.length) this.rows.lastElementChild?.remove();
    this.#fields.forEach(({ path, kinds, part, least, most, last }, index) => {
      const row = this.rows.rows[index];
      const [name, kind, share, range, now, pick] = [...row.cells];
      say(name, path === "" ? words.topics.itself : visible(path));
      say(kind, kinds.map((one) => words.values.kinds[one]).join(", "));
      say(share, percent(Math.min(1, part)));
      say(range, least === undefined ? "" : `${exact(least)} … ${exact(most)}`);
      say(now, last === undefined ? "" : exact(last));
      const box = /** @type {HTMLInputElement} */ (pick.firstElementChild);
      box.hidden = last === undefined;
      box.checked = this.#picked.includes(path);
      box.disabled = !box.checked && this.#picked.length >= PICKED;
      box.dataset.path = path;
      box.setAttribute("aria-label", words.topics.pick(visible(path)));
    });
  }

  /** @param {Event} event */
  #pick(event) {
    const box = /** @type {HTMLInputElement} */ (event.target);
    const path = box.dataset.path ?? "";
    this.#picked = box.checked ? [...this.#picked, path] : this.#picked.filter((other) => other !== path);
    this.#chart = null;
    this.plot.replaceChildren();
    if (this.#picked.length > 0) {
      const lines = this.#picked.map((one, at) => ({ name: visible(one) || words.topics.itself, colour: COLOURS[at] }));
      const title = lines.length === 1 ? lines[0].name : words.topics.chart;
      this.#chart = new Chart(title, lines, (value) => exact(value), STEPS.parts, "topic", this.#ending?.signal ?? this.#signal, true);
      this.plot.append(this.#chart.element);
    }
    this.#drawFields();
    this.#drawChart();
  }

  #drawChart() {
    this.#chart?.set(this.#times, this.#picked.map((path) => this.#samples.map((sample) => sample.get(path) ?? null)));
  }
}

function fieldRow() {
  const cells = Array.from({ length: 5 }, () => element("td"));
  return element("tr", {}, ...cells, element("td", {}, element("input", { type: "checkbox" })));
}

// The tree of topics: nodes with rates and subscribers, opened a level at a time. Keys, as trees have them: up and
// down, right opens or goes in, left closes or goes out.

/** Most rows in sight. */
const SHOWN = 2_000;

/** Most levels that are opened for a topic in the address; each is asked for. */
const REVEALED = 16;

/**
 * @typedef {"rate" | "bytes" | "topics" | "name"} Order
 * @typedef {{depth: number, name: string, isOpen: boolean, isOthers: boolean}} Drawn
 *   Fields that the page adds to a row. `isOthers`: Whether the row stands for topics that are not listed.
 * @typedef {TopicRow & Drawn} Shown
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

class Tree {
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

  /** Keep the answer of the hub for a prefix. @param {string} prefix @param {Level} level */
  set(prefix, level) {
    this.#levels.set(prefix, level);
  }

  /** Show search results, or, with null, the tree. @param {Level | null} level */
  find(level) {
    this.#isFound = level !== null;
    if (level !== null) this.#levels.set(null, level);
    else this.#levels.delete(null);
    this.draw();
  }

  /** Open all levels above a topic, for a page opened by its address. @param {string} topic */
  reveal(topic) {
    let at = 0;
    for (let level = 0; level < REVEALED; level += 1) {
      at = topic.indexOf("/", at + 1);
      if (at < 0 || at === topic.length - 1) return;
      this.open.add(topic.slice(0, at + 1));
    }
  }

  /** Show which row is looked at. @param {string} prefix */
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
 * The row for topics that are not listed.
 * @param {OtherTopics} others
 * @param {string} prefix Of no topic.
 * @param {number} depth @returns {Shown}
 */
function othersOf(others, prefix, depth) {
  const name = words.topics.others(others.nodes);
  return { ...others, prefix, name, depth, is_topic: false, messages: 0, subscribers: null, isOpen: false, isOthers: true };
}
