/** Overview: the state of the hub in one sentence, the slow subscribers and why, and the last ten minutes. */

import { labelOf, whySlow } from "../feeds/connections.js";
import { History } from "../feeds/history.js";
import { Chart, STEPS } from "../parts/chart.js";
import { card, complain, element, renew, say } from "../parts/element.js";
import { bytes, duration, percent, perSecond, reason, short, visible, whole } from "../parts/figures.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";

/**
 * @import { State } from "../feeds/services.d.ts"
 * @import { Session } from "../shell/session.js"
 * @import { Shell } from "../shell/views.js"
 */

const said = words.overview;
const STATE_TOPIC = "$hub/state";
const HISTORY_TOPIC = "$hub/history";

/** The hub looks once a second, milliseconds. */
const ASK_MS = 1_000;

const FIGURES = /** @type {const} */ (["in", "out", "connections", "subscribers", "slow", "lost"]);

/** Each chart: what it is called in `words.overview.charts`, how its values are written, the steps of its grid, its lines. */
const CHARTS = /** @type {const} */ ([
  ["messages", perSecond(short), STEPS.whole, [["in_messages", "--accent"], ["out_messages", "--good"]]],
  ["bytes", perSecond(bytes), STEPS.bytes, [["in_bytes", "--accent"], ["out_bytes", "--good"]]],
  ["dropped", perSecond(short), STEPS.whole, [["dropped_messages", "--bad"]]],
  ["queued", bytes, STEPS.bytes, [["queued_bytes", "--waiting"]]],
  ["lag", duration, STEPS.parts, [["lag_s", "--accent"]]],
  ["cpu", percent, STEPS.parts, [["cpu", "--accent"]]],
  ["memory", bytes, STEPS.bytes, [["memory_bytes", "--accent"]]],
  ["connections", whole, STEPS.whole, [["connections", "--accent"]]],
]);

/** @type {import("../shell/views.js").View} */
export const overview = {
  name: "overview",
  title: words.overview.title,
  isFor: (session) => session.mayAsk(STATE_TOPIC) && session.mayAsk(HISTORY_TOPIC),
  open: (shell, signal) => new Overview(shell, signal),
};

class Overview {
  #session;
  #history = new History();
  /** @type {Record<typeof FIGURES[number], HTMLElement>} */ figures;
  /** @type {[Chart, typeof CHARTS[number][3]][]} */ charts;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor({ session }, signal) {
    this.#session = session;
    this.sentence = element("p", { id: "sentence", role: "status" }, said.asking);
    this.problem = element("p", { id: "problem", class: "notice", role: "alert", hidden: true });
    this.card = element("section", { class: "card sentence", "aria-label": said.state }, this.sentence);
    const output = (/** @type {string} */ name) => element("output", { id: `figure-${name}` }, "–");
    this.figures = {
      in: output("in"), out: output("out"), connections: output("connections"),
      subscribers: output("subscribers"), slow: output("slow"), lost: output("lost"),
    };
    const figures = element("section", { class: "figures", "aria-label": said.figures });
    for (const name of FIGURES) {
      const label = element("span", { class: "label" }, said[name]);
      figures.append(element("div", { class: "figure", title: said.hints[name] }, label, this.figures[name]));
    }
    this.slow = new Slow(this.#session, signal);
    this.alarms = card(said.alarms, { id: "alarms", role: "alert", hidden: true }, element("ul"));
    this.losers = card(said.losers, { id: "losers", hidden: true }, element("ul"));
    this.charts = CHARTS.map(([name, format, steps, lines]) => {
      const named = lines.map(([figure, colour]) => ({ name: said.lines[figure], colour, filled: lines.length === 1 }));
      return [new Chart(said.charts[name], named, format, steps, "overview", signal), lines];
    });
    this.element = element(
      "div", { class: "overview" },
      this.card, this.problem, this.alarms, this.slow.element, figures, this.losers,
      element("section", { class: "charts", "aria-label": said.history }, ...this.charts.map(([chart]) => chart.element)),
    );
    const fail = (/** @type {unknown} */ error) => complain(this.problem, reason(error));
    poll(session, ASK_MS, () => this.#askState(), signal, fail);
    poll(session, ASK_MS, () => this.#askHistory(), signal, fail);
    session.onReady(() => this.#history.forget(), signal);
  }

  async #askState() {
    const state = await this.#session.ask(STATE_TOPIC, null);
    complain(this.problem, "");
    this.slow.set(state.slow_ids);
    this.#drawSentence(state);
    const isBad = state.troubles.length > 0 || state.dropped_messages > 0;
    this.card.dataset.state = isBad ? "bad" : state.slow > 0 ? "slow" : "good";
    const { figures } = this;
    say(figures.subscribers, whole(state.subscribers));
    say(figures.slow, whole(state.slow));
    say(figures.lost, whole(state.dropped_messages));
    figures.slow.parentElement?.classList.toggle("alarm", state.slow > 0);
    figures.lost.parentElement?.classList.toggle("alarm", state.dropped_messages > 0);
    this.#drawAlarms(state);
    this.#drawLosers(state);
  }

  /** What is wrong, each by itself: the sentence has them all in one. @param {State} state */
  #drawAlarms({ troubles }) {
    this.alarms.hidden = troubles.length === 0;
    renew(/** @type {HTMLElement} */ (this.alarms.lastElementChild), troubles.join("\n"), () => troubles.map((trouble) => element("li", {}, trouble)));
  }

  async #askHistory() {
    const history = this.#history;
    const answer = await this.#session.ask(HISTORY_TOPIC, history.question);
    if (history !== this.#history) return; // of a span that is not shown any more
    history.take(answer);
    const { times } = history;
    for (const [chart, lines] of this.charts) chart.set(times, lines.map(([figure]) => history.values(figure)));
    say(this.figures.in, short(history.newest("in_messages")));
    say(this.figures.out, short(history.newest("out_messages")));
    say(this.figures.connections, whole(history.newest("connections")));
    this.element.dataset.points = String(history.length);
  }

  // The label of the connection with most losses becomes a link; its backquotes go.
  /** @param {State} state */
  #drawSentence({ text, dropped_by: [most] }) {
    const label = most?.[0] ?? "";
    const id = this.slow.find(label);
    const at = label ? text.indexOf(`\`${label}\``) : -1;
    const key = `${id ?? ""} ${text}`;
    if (this.sentence.dataset.shown === key) return;
    this.sentence.dataset.shown = key;
    if (at < 0) {
      say(this.sentence, text);
      return;
    }
    const href = id === undefined ? fragmentOf("connections", [], { search: label }) : fragmentOf("connections", [String(id)]);
    this.sentence.replaceChildren(text.slice(0, at), element("a", { href }, label), text.slice(at + 2 + label.length));
  }

  /** @param {State} state */
  #drawLosers({ dropped_by: by }) {
    this.losers.hidden = by.every(([label]) => this.slow.find(label) !== undefined); // the list of slow connections shows them already
    renew(/** @type {HTMLElement} */ (this.losers.lastElementChild), by.map(String).join("\n"), () => by.map(([label, messages]) =>
      element(
        "li", {},
        element("a", { class: "cut", href: fragmentOf("connections", [], { search: label }) }, label),
        element("span", {}, whole(messages)),
      )));
  }
}

// Slow connections: the first `SHOWN` of `slow_ids`, each with a reason and a link to its page.

const WHO_TOPIC = "$hub/who";
const ASK_SLOW_MS = 2_000;

/** So many are asked for; the table of connections has all of them. */
const SHOWN = 5;

/** @typedef {{id: number, label: string, why: string}} One */

class Slow {
  #session;
  /** @type {readonly number[]} */ #ids = [];
  /** @type {One[]} */ #shown = [];
  /** @type {HTMLElement} */ rows = element("ul", {});
  /** @type {HTMLAnchorElement} */
  more = element("a", { href: fragmentOf("connections", [], { slow: 1 }), hidden: true });
  element = element("section", { id: "slow", class: "card", "aria-label": words.overview.whoIsSlow, hidden: true }, element("h2", {}, words.overview.whoIsSlow), this.rows, this.more);

  /** @param {Session} session @param {AbortSignal} signal Of the view. */
  constructor(session, signal) {
    this.#session = session;
    if (session.mayAsk(WHO_TOPIC)) poll(session, ASK_SLOW_MS, () => this.#ask(), signal);
  }

  /** These are slow by now. @param {readonly number[]} ids */
  set(ids) {
    const isNew = this.#ids.length === 0 && ids.length > 0;
    this.#ids = ids;
    if (ids.length === 0 && this.#shown.length > 0) this.#draw([]);
    if (isNew && this.#session.mayAsk(WHO_TOPIC)) this.#ask().catch(() => undefined); // two seconds later it is asked again
  }

  /** Return the id of the shown connection with this label, or undefined. @param {string} label */
  find(label) {
    return this.#shown.find((one) => one.label === label)?.id;
  }

  async #ask() {
    const ids = this.#ids.slice(0, SHOWN);
    const told = await Promise.all(ids.map((id) => this.#session.ask(WHO_TOPIC, { id })));
    const rows = told.flat().filter((row) => ids.includes(row.id)).map((row) => ({ id: row.id, label: labelOf(row), why: whySlow(row) || words.slowness.was }));
    this.#draw(rows);
  }

  /** @param {One[]} rows */
  #draw(rows) {
    this.element.hidden = rows.length === 0;
    const more = this.#ids.length - rows.length;
    this.more.hidden = more <= 0;
    say(this.more, more > 0 ? words.overview.moreSlow(more) : "");
    const same = rows.length === this.#shown.length && rows.every(({ id, label }, at) => this.#shown[at].id === id && this.#shown[at].label === label);
    this.#shown = rows;
    if (!same) {
      this.rows.replaceChildren(...rows.map(({ id, label }) =>
        element("li", {}, element("a", { href: fragmentOf("connections", [String(id)]) }, visible(label)), element("span", { class: "why" }))));
    }
    rows.forEach(({ why }, at) => {
      const node = this.rows.children[at].querySelector(".why");
      if (node !== null) say(node, why);
    });
  }
}
