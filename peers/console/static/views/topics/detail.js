/**
 * One topic: its last ten minutes, its last value, its fields, and live charts of chosen fields. Nothing is subscribed to before
 * it is asked for.
 */

import { History } from "../../feeds/history.js";
import { Chart, STEPS } from "../../parts/chart.js";
import { bytes, complaint, exact, moment, percent, perSecond, short, visible, whole } from "../../parts/figures.js";
import { element, say } from "../../parts/element.js";
import { Feed } from "../../parts/feed.js";
import { poll } from "../../parts/timing.js";
import { valueTree } from "../../parts/value_tree.js";
import { words } from "../../words.js";

const TOPICS_TOPIC = "$hub/topics";

/** The hub has a new point of a topic's history every five seconds, milliseconds. */
const ASK_MS = 5_000;

/** What is shown in the chart of fields: five minutes, at two samples a second. */
const SAMPLES = 600;

/** Fields that are charted at one time. */
const PICKED = 5;
const COLOURS = ["--accent", "--good", "--waiting", "--bad", "--quiet"];

/**
 * @import { Field, Row } from "../../parts/sampler.js"
 * @import { Told } from "../../parts/feed.js"
 * @import { Shell } from "../../shell/views.js"
 */

export class Detail {
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
    const { topics: said } = words;
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
      element(
        "table", { class: "fields" },
        element("thead", {}, element("tr", {}, ...said.heads.map((it) => element("th", { scope: "col" }, it)))),
        this.rows,
      ),
    );
    this.element = element(
      "section", { id: "topic-detail", class: "card detail", "aria-label": said.detail, hidden: true },
      this.name,
      element("div", { class: "toolbar" }, this.watch, this.stream, this.told),
      this.lately, this.noHistory,
      this.watched,
    );
    poll(shell.session, ASK_MS, () => this.#ask(), signal);
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  // Look at a prefix, or a topic.
  /** @param {string} prefix @param {boolean} isTopic */
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
