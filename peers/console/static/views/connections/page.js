/**
 * The page of one connection: its figures, prefixes and last losses, and for admins how to close it. A connection that has left
 * stays on the page as it was.
 */

import { fullness, labelOf, whySlow } from "../../feeds/connections.js";
import { History } from "../../feeds/history.js";
import { Chart, STEPS } from "../../parts/chart.js";
import { bytes, duration, moment, percent, perSecond, reason, short, whole } from "../../parts/figures.js";
import { confirm, element, say } from "../../parts/element.js";
import { poll } from "../../parts/timing.js";
import { fragmentOf } from "../../shell/views.js";
import { words } from "../../words.js";

const WHO_TOPIC = "$hub/who";
const LOSSES_TOPIC = "$hub/losses";
const KICK_TOPIC = "$hub/kick";
const ASK_MS = 1_000;

const LOSSES_SHOWN = 50;

/**
 * @import { Connection } from "../../feeds/services.d.ts"
 * @import { Shell } from "../../shell/views.js"
 */

/** Each chart: its name, how it is written, its grid, its lines: a figure, and its colour. */
const CHARTS = /** @type {const} */ ([
  ["messages", perSecond(short), STEPS.whole, [["in_messages", "--accent"], ["out_messages", "--good"]]],
  ["outBytes", perSecond(bytes), STEPS.bytes, [["out_bytes", "--good"]]],
  ["dropped", perSecond(short), STEPS.whole, [["dropped_messages", "--bad"]]],
  ["queued", bytes, STEPS.bytes, [["queued_bytes", "--waiting"]]],
]);

export class ConnectionPage {
  /** @type {import("../../shell/session.js").Session} */ #session;
  #id;
  #history = new History();
  /** @type {HTMLElement} */ title;
  /** @type {HTMLElement} */ problem;
  /** @type {HTMLElement} */ why;
  /** @type {HTMLElement} */ done;
  /** @type {HTMLElement} */ facts;
  /** @type {HTMLElement} */ noHistory;
  /** @type {HTMLElement} */ prefixTitle;
  /** @type {HTMLElement} */ prefixes;
  /** @type {HTMLElement} */ morePrefixes;
  /** @type {HTMLElement} */ losses;
  /** @type {HTMLElement} */ noLosses;
  /** @type {HTMLButtonElement} */ earlier;
  #wanted = LOSSES_SHOWN; // losses
  /** @type {[Chart, typeof CHARTS[number][3]][]} */ charts;
  /** @type {HTMLElement} */ element;

  /** @param {Shell} shell @param {number} id @param {AbortSignal} signal */
  constructor(shell, id, signal) {
    this.#session = shell.session;
    this.#id = id;
    this.#make(shell, signal);
    const fail = (/** @type {unknown} */ error) => this.#complain(reason(error));
    poll(this.#session, ASK_MS, () => this.#ask(), signal, fail);
    if (this.#session.mayAsk(LOSSES_TOPIC)) poll(this.#session, ASK_MS, () => this.#askLosses(), signal, fail);
    this.#session.onReady(() => this.#history.forget(), signal);
  }

  async #ask() {
    const [row] = await this.#session.ask(WHO_TOPIC, { id: this.#id, history: true });
    this.element.dataset.state = row ? "there" : "gone";
    this.#complain(row ? "" : words.connection.gone);
    if (!row) return;
    const why = whySlow(row);
    this.why.hidden = why === "";
    say(this.why, why);
    this.#drawFacts(row);
    this.#drawPrefixes(row);
    this.#drawHistory(row.history);
  }

  /** @param {Connection["history"]} told */
  #drawHistory(told) {
    this.noHistory.hidden = told !== null;
    if (told === null) return;
    this.#history.take(told);
    const { times } = this.#history;
    this.element.dataset.points = String(times.length);
    for (const [chart, lines] of this.charts) chart.set(times, lines.map(([figure]) => this.#history.values(figure)));
  }

  async #askLosses() {
    const found = await this.#session.ask(LOSSES_TOPIC, { id: this.#id, limit: this.#wanted });
    this.earlier.hidden = found.length < this.#wanted;
    const shown = found.map(({ at, messages, why }) =>
      element("tr", {}, element("td", {}, moment(at)), element("td", {}, why), element("td", {}, whole(messages))));
    const key = JSON.stringify(found);
    if (this.losses.dataset.shown === key) return;
    this.losses.dataset.shown = key;
    this.losses.replaceChildren(...shown);
    this.noLosses.hidden = found.length > 0;
  }

  /** @param {Connection} row */
  #drawFacts(row) {
    const { connection: said, connections: { roles, queued } } = words;
    const { rates } = row;
    const published = rates === null ? said.measuring : perSecond(short)(rates.in_messages);
    const delivered = rates === null ? said.measuring : `${perSecond(short)(rates.out_messages)}, ${perSecond(bytes)(rates.out_bytes)}`;
    say(this.title, labelOf(row));
    const facts = [
      [said.id, row.id],
      [said.name, row.name],
      [said.user, row.user],
      [said.how, row.how],
      [said.role, roles[row.role] ?? row.role],
      [said.protocol, row.protocol],
      [said.tls, /^(tls|wss|https)$/.test(row.protocol) ? said.yes : said.no],
      [said.address, row.address],
      [said.software, row.software],
      [said.since, `${moment(row.since)} (${duration(Date.now() / 1000 - row.since)})`],
      [said.published, `${whole(row.published_messages)}, ${published}`],
      [said.delivered, `${whole(row.delivered_messages)}, ${delivered}`],
      [said.received, bytes(row.received_bytes)],
      [said.dropped, whole(row.dropped_messages)],
      [said.overflow, row.overflow],
      [said.queue, `${percent(fullness(row))}: ${queued(whole(row.queued_messages), bytes(row.queued_bytes), whole(row.queue.messages), bytes(row.queue.bytes))}`],
      [said.paused, row.paused ? said.yes : said.no],
      [said.rules, whole(row.rules)],
    ];
    if (this.facts.childElementCount === 0) {
      this.facts.append(...facts.map(([name]) => element("div", {}, element("dt", {}, String(name)), element("dd"))));
    }
    this.facts.querySelectorAll("dd").forEach((node, at) => {
      const [, value] = facts[at];
      say(node, String(value || "–"));
      node.title = String(value);
    });
  }

  /** @param {Connection} row */
  #drawPrefixes(row) {
    say(this.prefixTitle, words.connection.prefixes(row.prefixes));
    const key = row.sample.join("\n");
    if (this.prefixes.dataset.shown === key) return;
    this.prefixes.dataset.shown = key;
    this.prefixes.replaceChildren(...row.sample.map((prefix) => element("li", { class: "cut", title: prefix }, prefix || words.connection.everything)));
    this.morePrefixes.hidden = row.prefixes <= row.sample.length;
    say(this.morePrefixes, words.connection.more(row.prefixes - row.sample.length));
  }

  async #kick() {
    const { connection: said } = words;
    const text = await confirm(said.kickQuestion(this.title.textContent), said.kick, { label: said.kickText, value: said.kickDefault });
    if (text === null) return;
    try {
      await this.#session.ask(KICK_TOPIC, { id: this.#id, text });
      say(this.done, said.kicked);
    } catch (error) {
      say(this.done, reason(error));
    }
  }

  /** @param {string} text */
  #complain(text) {
    this.problem.hidden = text === "";
    say(this.problem, text);
  }

  /** @param {Shell} shell @param {AbortSignal} signal */
  #make(shell, signal) {
    const { connection: said, overview } = words;
    const mayKick = !shell.wall && this.#session.mayAsk(KICK_TOPIC);
    this.title = element("h2", { id: "connection-title", class: "cut" }, `${said.id} ${this.#id}`);
    this.problem = element("p", { id: "problem", class: "notice", role: "status", hidden: true });
    this.why = element("p", { id: "why-slow", class: "card sentence", role: "status", hidden: true, dataset: { state: "bad" } });
    this.done = element("span", { id: "kicked", role: "status", class: "quiet" });
    this.facts = element("dl", { class: "facts" });
    this.noHistory = element("p", { id: "no-history", class: "quiet", hidden: true }, said.noHistory);
    this.prefixTitle = element("h3", {}, said.prefixes(0));
    this.prefixes = element("ul", { id: "prefixes", class: "mono" });
    this.morePrefixes = element("p", { class: "quiet", hidden: true });
    this.losses = element("tbody", { id: "losses" });
    this.noLosses = element("p", { class: "quiet" }, said.noLosses);
    const goBack = () => {
      this.#wanted += LOSSES_SHOWN;
      this.#askLosses().catch((error) => this.#complain(reason(error)));
    };
    this.earlier = element("button", { id: "losses-earlier", type: "button", hidden: true, signal, on: { click: goBack } }, said.earlier);
    this.charts = CHARTS.map(([name, format, steps, lines]) => {
      const named = lines.map(([line, colour]) => ({ name: overview.lines[line], colour, filled: lines.length === 1 }));
      return [new Chart({ ...overview.charts, ...said.charts }[name], named, format, steps, "connection", signal), lines];
    });
    this.element = element(
      "section", { class: "connection", "aria-labelledby": "connection-title" },
      element(
        "div", { class: "toolbar" },
        element("a", { href: fragmentOf("connections"), id: "back" }, said.back), this.title, element("span", { class: "spring" }), this.done,
        mayKick ? element("button", { id: "kick", type: "button", class: "danger", signal, on: { click: () => this.#kick() } }, said.kick) : null,
      ),
      this.problem,
      this.why,
      element("div", { class: "card" }, this.facts),
      this.noHistory,
      element("section", { class: "charts", "aria-label": said.history }, ...this.charts.map(([chart]) => chart.element)),
      element(
        "div", { class: "halves" },
        element("div", { class: "card half" }, this.prefixTitle, this.prefixes, this.morePrefixes),
        this.#session.mayAsk(LOSSES_TOPIC)
          ? element(
            "div", { class: "card half" },
            element("h3", {}, said.losses), this.noLosses,
            element("table", {}, this.losses), this.earlier,
          )
          : null,
      ),
    );
  }
}
