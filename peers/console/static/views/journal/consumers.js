/**
 * The named consumers of a journal: how far behind each is, and whether it gets nearer.
 *
 * Owner of the state: `Consumers`: how far each was behind at the last look. Bound: `ROWS` rows, those furthest behind.
 */

import { element, say } from "../../parts/element.js";
import { duration, short, whole } from "../../parts/figures.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

/** So many are shown. */
const ROWS = 200;

/** So much less a second is no progress worth telling. */
const LEAST_RATE = 0.05;

/** A query that is behind and was not heard of for so long is in trouble, s: micro-batches may take some time. */
const SILENT_S = 60;

/** @import { Consumer } from "../../feeds/services.d.ts" */

export class Consumers {
  /** @type {Map<string, {lag: number, at: number}>} By name. */
  #before = new Map();

  constructor() {
    const { journal: said } = words;
    this.rows = element("tbody", { id: "consumers" });
    this.told = element("p", { id: "consumers-told", class: "quiet told-line", role: "status" });
    this.table = element(
      "table", { class: "consumers" },
      element("thead", {}, element("tr", {}, ...said.columns.map((it) => element("th", { scope: "col" }, it)))),
      this.rows,
    );
    this.element = element(
      "section", { class: "card", "aria-label": said.consumers, hidden: true },
      element("h2", {}, said.consumers), this.table, this.told,
    );
  }

  forget() {
    this.#before.clear();
  }

  /**
   * Show them as the hub lists them; null hides it all.
   *
   * @param {Consumer[] | null} listed
   */
  set(listed) {
    const { journal: said } = words;
    this.element.hidden = listed === null;
    if (listed === null) return;
    const now = performance.now() / 1000;
    const rates = new Map(listed.map((one) => [one.name, this.#rate(one, now)]));
    this.#before = new Map(listed.map(({ name, lag }) => [name, { lag, at: now }]));
    const shown = [...listed].sort((one, other) => other.lag - one.lag || (one.name < other.name ? -1 : 1)).slice(0, ROWS);
    this.table.hidden = listed.length === 0;
    this.rows.replaceChildren(...shown.map((one) => row(one, rates.get(one.name) ?? null)));
    const left = listed.length - shown.length;
    say(this.told, listed.length === 0 ? said.noConsumers : left > 0 ? said.others(left) : "");
  }

  /**
   * How fast one falls behind, records a second; null at the first look.
   *
   * @param {Consumer} consumer
   * @param {number} now
   */
  #rate({ name, lag }, now) {
    const before = this.#before.get(name);
    return before === undefined || now <= before.at ? null : (lag - before.lag) / (now - before.at);
  }
}

/**
 * @param {Consumer} one
 * @param {number | null} rate
 */
function row(one, rate) {
  const [state, text] = standing(one, rate);
  const prefixes = one.prefixes.map(visible).join(" ") || "/";
  return element(
    "tr", { dataset: { state } },
    element("td", { class: "cut", title: visible(one.name) }, visible(one.name)),
    element("td", { class: "cut", title: prefixes }, prefixes),
    element("td", {}, whole(one.lag)),
    element("td", { class: "cut standing", title: text }, text),
    element("td", {}, whole(one.members)),
    element("td", {}, whole(one.out)),
    element("td", {}, short(one.counters.acknowledged_total)),
    element("td", {}, short(one.counters.redelivered_total)),
    element("td", {}, short(one.counters.dead_total)),
  );
}

/**
 * Return how one does: `good`, `slow` or `bad`, and in words.
 *
 * @param {Consumer} consumer
 * @param {number | null} rate
 * @returns {[state: string, text: string]}
 */
function standing({ error, lag, members, committed_s }, rate) {
  const { journal: said } = words;
  if (error) return ["bad", visible(error)];
  if (typeof committed_s === "number") return standingOfQuery(committed_s, lag, rate);
  return lag > 0 && members === 0 ? ["bad", said.nobody] : pace(lag, rate);
}

/**
 * Return how a query does, which reads by itself: also when it was heard of.
 *
 * @param {number} heard How long ago, s.
 * @param {number} lag
 * @param {number | null} rate
 * @returns {[state: string, text: string]}
 */
function standingOfQuery(heard, lag, rate) {
  const [state, text] = pace(lag, rate);
  return [lag > 0 && heard > SILENT_S ? "bad" : state, words.journal.query(text, duration(heard))];
}

/**
 * Return how one gets on.
 *
 * @param {number} lag
 * @param {number | null} rate
 * @returns {[state: string, text: string]}
 */
function pace(lag, rate) {
  const { journal: said } = words;
  if (lag === 0) return ["good", said.keepsUp];
  if (rate === null) return ["slow", said.waits];
  if (rate > LEAST_RATE) return ["bad", said.fallsBehind(short(rate))];
  if (rate < -LEAST_RATE) return ["slow", said.catchesUp(duration(lag / -rate))];
  return ["slow", said.stays];
}
