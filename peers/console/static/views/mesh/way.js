/**
 * The way of a topic's messages from this hub, found out by a probe (`$hub/mesh/probe`, as `hub trace` asks it).
 *
 * Owner of the state: `Way`: which question was asked last; what is answered to another one is left out. Nothing is asked before somebody wants it.
 */

import { complaint } from "../../parts/complaint.js";
import { element, say } from "../../parts/element.js";
import { short, whole } from "../../parts/figures.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

export const PROBE_TOPIC = "$hub/mesh/probe";

/** The hub waits two seconds for reports; it may be busy beside that. */
const ANSWER_MS = 15_000;

/** Rows that are shown. */
const ROWS = 200;

/**
 * @import { Probed } from "../../feeds/services.d.ts"
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
      "section", { class: "card", "aria-label": said.way, hidden: !shell.session.mayAsk(PROBE_TOPIC) },
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
    if (!topic || !session.mayAsk(PROBE_TOPIC)) {
      this.#show([], "");
      return;
    }
    say(this.told, words.mesh.probing);
    try {
      const rows = await session.ask(PROBE_TOPIC, { topic }, { timeoutMs: ANSWER_MS });
      if (this.#asked === mine) this.#show(rows, "");
    } catch (error) {
      if (this.#asked === mine) this.#show([], complaint(error));
    }
  }

  /**
   * @param {Probed[]} rows
   * @param {string} problem
   */
  #show(rows, problem) {
    const { mesh: said } = words;
    const shown = inOrder(rows).slice(0, ROWS);
    this.table.hidden = rows.length === 0;
    this.rows.replaceChildren(...shown.map(row));
    const isWanted = rows.some((one) => one.outcome === "taken");
    say(this.told, problem || (rows.length === 0 ? "" : !isWanted ? said.unwanted : rows.length > shown.length ? said.more(rows.length - shown.length) : ""));
    this.#onFound(new Set(rows.filter((one) => one.before !== null).map((one) => `${one.before} ${one.hub}`)));
  }
}

/**
 * Each hub behind the one that the probe has come from.
 *
 * @param {Probed[]} rows
 */
function inOrder(rows) {
  const known = new Set(rows.map(({ hub }) => hub));
  /** @type {Map<string | null, Probed[]>} */
  const behind = new Map([null, ...known].map((hub) => [hub, []]));
  for (const one of rows) behind.get(one.before !== null && known.has(one.before) ? one.before : null)?.push(one);
  const found = [];
  const waiting = (behind.get(null) ?? []).reverse();
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    found.push(one);
    waiting.push(...(behind.get(one.hub) ?? []).reverse());
  }
  return found;
}

/** @param {Probed} one */
function row(one) {
  const outcome = words.mesh.outcomes[one.outcome] ?? visible(one.outcome);
  const name = element("td", { class: "cut", title: one.hub }, visible(one.name || one.hub));
  name.style.paddingLeft = `${14 + 18 * Math.min(one.hops ?? 0, 20)}px`;
  return element(
    "tr", { dataset: { outcome: one.outcome } },
    name,
    element("td", { class: "cut", title: outcome }, outcome),
    element("td", {}, whole(one.subscribers)),
    element("td", {}, milliseconds(one.round_trip_ms)), element("td", {}, milliseconds(one.link_ms)), element("td", {}, milliseconds(one.waited_ms)),
  );
}

/** @type {(value: number | null) => string} */
const milliseconds = (value) => (value === null ? "" : `${short(value)} ms`);
