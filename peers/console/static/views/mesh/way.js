/**
 * The way of a topic's messages from this hub, as it knows it (`$hub/mesh/trace`, as `hub trace` asks it).
 *
 * Owner of the state: `Way`: which question was asked last; what is answered to another one is left out. Nothing is asked before somebody wants it.
 */

import { complaint } from "../../parts/complaint.js";
import { element, say } from "../../parts/element.js";
import { whole } from "../../parts/figures.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

const TRACE_TOPIC = "$hub/mesh/trace";

/** Rows that are shown. */
const ROWS = 200;

/**
 * @import { Traced } from "../../feeds/services.d.ts"
 * @import { Shell } from "../../shell/views.js"
 */

export class Way {
  #shell;
  #onFound;
  #asked = 0; // number of the question whose answer is meant

  /**
   * @param {Shell} shell
   * @param {(links: Set<string>) => void} onFound Told the links of the way, as `before id`.
   * @param {AbortSignal} signal
   */
  constructor(shell, onFound, signal) {
    const { mesh: said } = words;
    this.#shell = shell;
    this.#onFound = onFound;
    this.topic = element("input", { id: "way-topic", type: "text", spellcheck: "false", maxlength: 1024, placeholder: "/plant/east/press-00", "aria-label": said.wayOf, "data-search": true });
    const go = (/** @type {Event} */ event) => {
      event.preventDefault();
      shell.go("mesh", [], { topic: this.topic.value });
    };
    this.told = element("p", { id: "way-told", class: "quiet told-line", role: "status" });
    this.rows = element("tbody", { id: "way" });
    this.table = element(
      "table", { class: "way", hidden: true },
      element("thead", {}, element("tr", {}, ...said.wayColumns.map((it) => element("th", { scope: "col" }, it)))),
      this.rows,
    );
    this.element = element(
      "section", { class: "card", "aria-label": said.way, hidden: !shell.session.mayAsk(TRACE_TOPIC) },
      element("h2", {}, said.way),
      element("form", { class: "toolbar", autocomplete: "off", signal, on: { submit: go } }, this.topic, element("button", { type: "submit" }, said.find)),
      this.table, this.told,
    );
  }

  /**
   * Ask for the way of a topic; an empty one forgets it.
   *
   * @param {string} topic
   */
  async find(topic) {
    this.topic.value = topic;
    this.#asked += 1;
    const mine = this.#asked;
    const { session } = this.#shell;
    if (!topic || !session.mayAsk(TRACE_TOPIC)) {
      this.#show([], "");
      return;
    }
    say(this.told, words.mesh.tracing);
    try {
      const rows = await session.ask(TRACE_TOPIC, { topic });
      if (this.#asked === mine) this.#show(rows, rows.length === 0 ? words.mesh.unwanted : "");
    } catch (error) {
      if (this.#asked === mine) this.#show([], complaint(error));
    }
  }

  /**
   * @param {Traced[]} rows
   * @param {string} problem
   */
  #show(rows, problem) {
    const { mesh: said } = words;
    const shown = inOrder(rows).slice(0, ROWS);
    this.table.hidden = rows.length === 0;
    this.rows.replaceChildren(...shown.map(row));
    say(this.told, problem || (rows.length > shown.length ? said.more(rows.length - shown.length) : ""));
    this.#onFound(new Set(rows.filter((one) => one.before !== null).map((one) => `${one.before} ${one.hub}`)));
  }
}

/**
 * Each hub behind the one before it, with how many are before it.
 *
 * @param {Traced[]} rows
 */
function inOrder(rows) {
  const known = new Set(rows.map(({ hub }) => hub));
  /** @type {Map<string | null, Traced[]>} */
  const behind = new Map([null, ...known].map((hub) => [hub, []]));
  for (const one of rows) behind.get(one.before !== null && known.has(one.before) ? one.before : null)?.push(one);
  /** @type {[Traced, number][]} */
  const found = [];
  const waiting = (behind.get(null) ?? []).reverse().map((one) => /** @type {[Traced, number]} */ ([one, 0]));
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [one, hops] = next;
    found.push(next);
    for (const following of (behind.get(one.hub) ?? []).reverse()) waiting.push([following, hops + 1]);
  }
  return found;
}

/** @param {[Traced, number]} traced */
function row([one, hops]) {
  const { mesh: said } = words;
  const isUnreachable = one.before === null && !one.own;
  const told = one.barred ? said.barred : isUnreachable ? said.unreachable : one.wants ? said.wanted : said.passed;
  const name = element("td", { class: "cut", title: one.hub }, visible(one.name || one.hub));
  name.style.paddingLeft = `${14 + 18 * Math.min(hops, 20)}px`;
  return element("tr", {}, name, element("td", { class: "cut", title: told }, told), element("td", {}, whole(one.cost)));
}
