/**
 * Connections: a table of all, and a page of each. It asks `$hub/who` for a thousand at a time, and begins again when as many
 * seconds have passed as there are thousands, so that 10,000 cost the hub 2 % of a processor.
 */

import { Connections, fullness, labelOf, ORDERS, sort, wanted, whySlow } from "../feeds/connections.js";
import { History } from "../feeds/history.js";
import { Chart, STEPS } from "../parts/chart.js";
import { complain, confirm, element, renew, say } from "../parts/element.js";
import { bytes, duration, moment, percent, perSecond, reason, short, since, whole } from "../parts/figures.js";
import { numeric, Table, textual } from "../parts/table.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";

/**
 * @import { Row } from "../feeds/connections.js"
 * @import { Connection } from "../feeds/services.d.ts"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.connections;
const WHO_TOPIC = "$hub/who";
const STATE_TOPIC = "$hub/state";

/** Connections in an answer: the most that the hub gives; of a look at a hub of which nothing is shown yet, a screenful. */
const PAGE = 1024;
const FIRST_PAGE = 64;

/** How often slow connections are asked for, and whether the next listing is due, milliseconds. */
const ASK_MS = 1_000;

/** Least time between two drawings, milliseconds. */
const DRAW_MS = 400;

/** Most users to choose from; the search finds the others. */
const USERS_SHOWN = 200;

/** Least width of the table's columns and their gaps, CSS pixels. */
const LEAST_PX = 976;

const ROLES = ["client", "link", "leaf"];

/**
 * @typedef {{search: string, role: string, user: string, slow: string, sort: string}} Filter
 *   The filter, as it stands in the address.
 */

/** Columns whose largest values come first. */
const NUMBERS = new Set(["in", "out", "bytes", "queue", "dropped", "prefixes", "since"]);

/** @type {import("../shell/views.js").View} */
export const connections = {
  name: "connections",
  title: words.connections.title,
  isFor: (session) => session.mayAsk(WHO_TOPIC),
  open: (shell, signal) => new ConnectionsView(shell, signal),
};

class ConnectionsView {
  #shell;
  #known = new Connections();
  /** @type {Filter} */ #filter = { search: "", role: "", user: "", slow: "", sort: "-dropped" };
  /** @type {{page: ConnectionPage, ending: AbortController} | null} Of one connection. */
  #page = null;
  #shownUsers = "";
  #nextAt = 0;
  #shown = 0; // rows in the table
  /** @type {ReturnType<typeof setTimeout> | undefined} The timer of the next drawing. */
  #due;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    const { session } = shell;
    const wish = (/** @type {keyof Filter} */ name) => (/** @type {Event} */ event) =>
      this.#seek({ [name]: /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target).value });
    this.searchField = element("input", {
      id: "search", type: "search", placeholder: said.search, "aria-label": said.search, spellcheck: "false",
      "data-search": true, maxlength: 1024, signal, on: { input: wish("search") },
    });
    const role = (/** @type {string} */ name) => element("option", { value: name }, name ? said.roles[name] : said.anyRole);
    this.roleField = element("select", { id: "role", "aria-label": said.columns.role, signal, on: { change: wish("role") } }, role(""), ...ROLES.map(role));
    this.userField = element("select", { id: "of-user", "aria-label": said.columns.user, hidden: true, signal, on: { change: wish("user") } });
    const onSlow = () => this.#seek({ slow: this.slowField.checked ? "1" : "" });
    this.slowField = element("input", { id: "only-slow", type: "checkbox", signal, on: { change: onSlow } });
    this.count = element("span", { id: "count", class: "quiet", role: "status" });
    this.sentence = element("p", { id: "sentence", class: "quiet", role: "status" });
    this.problem = element("p", { id: "problem", class: "notice", role: "alert", hidden: true });
    const does = {
      open: (/** @type {Row} */ row) => this.#shell.go("connections", [row.id]),
      sort: (/** @type {string} */ key) => this.#sort(key),
    };
    this.table = new Table(said.title, this.#columns(said.columns), LEAST_PX, does, signal);
    this.list = element(
      "section", { class: "card connections", "aria-label": said.title },
      element(
        "div", { class: "toolbar" },
        this.searchField, this.roleField, this.userField,
        element("label", { class: "choice" }, this.slowField, said.onlySlow),
        element("span", { class: "spring" }), this.count,
      ),
      this.sentence, this.problem, this.table.element,
    );
    this.element = element("div", { class: "connections-view" });
    session.onReady(() => {
      this.#known.forget();
      this.#nextAt = 0;
    }, signal);
    const fail = (/** @type {unknown} */ error) => complain(this.problem, reason(error));
    poll(session, ASK_MS, () => this.#look(), signal, fail);
    if (session.mayAsk(STATE_TOPIC)) poll(session, ASK_MS, () => this.#askState(), signal, fail);
    signal.addEventListener("abort", () => {
      this.#page?.ending.abort();
      clearTimeout(this.#due);
    });
  }

  /** @param {Place} place */
  show({ rest, parameters }) {
    this.#page?.ending.abort();
    this.#page = null;
    const id = Number(rest[0]);
    if (rest.length && Number.isSafeInteger(id)) {
      const ending = new AbortController();
      this.#page = { ending, page: new ConnectionPage(this.#shell, id, ending.signal) };
      this.element.replaceChildren(this.#page.page.element);
      return;
    }
    this.element.replaceChildren(this.list);
    const sort = parameters.get("sort") ?? "-dropped";
    const key = sort.replace(/^-/, "");
    this.#filter = {
      search: parameters.get("search") ?? "",
      role: parameters.get("role") ?? "",
      user: parameters.get("user") ?? "",
      slow: parameters.get("slow") ?? "",
      sort: Object.hasOwn(ORDERS, key) ? sort : "-dropped",
    };
    this.#drawFilter();
    this.#draw();
  }

  async #look() {
    if (this.#page || performance.now() < this.#nextAt) return;
    const known = this.#known;
    let after = 0;
    let limit;
    let page;
    known.begin();
    do {
      limit = known.size === 0 ? FIRST_PAGE : PAGE;
      page = await this.#shell.session.ask(WHO_TOPIC, { after, limit });
      known.take(page);
      after = page.at(-1)?.id ?? after;
      this.#drawSoon();
    } while (page.length === limit);
    known.end();
    this.#nextAt = performance.now() + Math.floor(known.size / 1000) * 1000;
    complain(this.problem, "");
    this.#draw();
    this.element.dataset.looks = String(Number(this.element.dataset.looks ?? 0) + 1);
  }

  async #askState() {
    const state = await this.#shell.session.ask(STATE_TOPIC, null);
    this.#known.mark(state.slow_ids);
    say(this.sentence, state.text.replaceAll("`", ""));
    this.#drawSoon();
  }

  /** Draw at once where nothing is drawn yet, and else not more often than one can read: sorting 10,000 takes 10 ms. */
  #drawSoon() {
    if (this.#shown === 0) this.#draw();
    else this.#due ??= setTimeout(() => this.#draw(), DRAW_MS);
  }

  #draw() {
    clearTimeout(this.#due);
    this.#due = undefined;
    if (this.#page) return;
    const all = this.#known.rows;
    const isWanted = wanted(this.#filter);
    const found = all.filter((row) => (!this.#filter.slow || this.#known.isSlow(row)) && isWanted(row));
    this.table.set(sort(found, this.#filter.sort));
    this.#shown = found.length;
    say(this.count, words.connections.shown(found.length, all.length));
    this.#drawUsers(all);
  }

  /** @param {Row[]} all */
  #drawUsers(all) {
    const names = [...new Set(all.map(({ user }) => user))].filter(Boolean).sort().slice(0, USERS_SHOWN);
    const { user } = this.#filter;
    if (user && !names.includes(user)) names.unshift(user);
    if (names.join("\n") === this.#shownUsers) return;
    this.#shownUsers = names.join("\n");
    this.userField.replaceChildren(
      element("option", { value: "" }, words.connections.anyUser),
      ...names.map((name) => element("option", { value: name }, name)),
    );
    this.userField.value = user;
    this.userField.hidden = names.length === 0;
  }

  #drawFilter() {
    const { search, role, user, slow, sort } = this.#filter;
    if (this.searchField.value !== search) this.searchField.value = search;
    this.roleField.value = role;
    this.userField.value = user;
    this.slowField.checked = slow !== "";
    this.table.sorted(sort.replace(/^-/, ""), sort.startsWith("-"));
  }

  // Look for something else: it stands in the address, and going back does not lead through every letter.
  /** @param {Partial<Filter>} changes */
  #seek(changes) {
    this.#filter = { ...this.#filter, ...changes };
    const { sort, ...others } = this.#filter;
    const said = { ...others, sort: sort === "-dropped" ? "" : sort };
    history.replaceState(null, "", fragmentOf("connections", [], said));
    this.#drawFilter();
    this.#draw();
  }

  /** @param {string} key */
  #sort(key) {
    const { sort } = this.#filter;
    if (sort.replace(/^-/, "") === key) this.#seek({ sort: sort.startsWith("-") ? key : `-${key}` });
    else this.#seek({ sort: NUMBERS.has(key) ? `-${key}` : key });
  }

  /** @param {typeof words.connections.columns} titles @returns {import("../parts/table.js").Column<Row>[]} */
  #columns(titles) {
    const { roles } = words.connections;
    return [
      {
        key: "name", title: titles.name, width: "minmax(94px, 2fr)", narrow: true,
        fill: (cell, row) => {
          const label = labelOf(row);
          say(cell, label);
          if (cell.title !== label) cell.title = label;
          cell.classList.toggle("slow", this.#known.isSlow(row));
        },
      },
      textual("user", titles.user, "minmax(50px, 1fr)", (row) => row.user),
      textual("role", titles.role, "52px", (row) => roles[row.role] ?? row.role),
      numeric("in", titles.in, "50px", (row) => short(row.rates?.in_messages)),
      numeric("out", titles.out, "50px", (row) => short(row.rates?.out_messages), { narrow: true }),
      numeric("bytes", titles.bytes, "76px", (row) => bytes(row.rates?.out_bytes)),
      { key: "queue", title: titles.queue, width: "minmax(60px, 100px)", narrow: true, number: true, fill: fillQueue },
      numeric("dropped", titles.dropped, "74px", (row) => whole(row.dropped_messages), { narrow: true }),
      textual("overflow", titles.overflow, "80px", (row) => row.overflow),
      numeric("prefixes", titles.prefixes, "54px", (row) => whole(row.prefixes)),
      textual("address", titles.address, "minmax(90px, 1.2fr)", (row) => row.address),
      textual("protocol", titles.protocol, "40px", (row) => row.protocol),
      textual("since", titles.since, "minmax(94px, 120px)", (row) => since(row.since)),
    ];
  }
}

/** How much waits, with a bar for how full the queue is. @param {HTMLElement} cell @param {Row} row */
function fillQueue(cell, row) {
  const part = fullness(row);
  say(cell, whole(row.queued_messages));
  cell.style.setProperty("--full", `${(100 * part).toFixed(1)}%`);
  cell.classList.toggle("is-full", part >= 0.9);
  const title = words.connections.queued(whole(row.queued_messages), bytes(row.queued_bytes), whole(row.queue.messages), bytes(row.queue.bytes));
  if (cell.title !== title) cell.title = title;
}

// The page of one connection: its figures, prefixes and last losses, and for admins how to close it. A connection
// that has left stays on the page as it was.

const LOSSES_TOPIC = "$hub/losses";
const KICK_TOPIC = "$hub/kick";

const LOSSES_SHOWN = 50;

/** Each chart: its name, how it is written, its grid, its lines: a figure, and its colour. */
const CHARTS = /** @type {const} */ ([
  ["messages", perSecond(short), STEPS.whole, [["in_messages", "--accent"], ["out_messages", "--good"]]],
  ["outBytes", perSecond(bytes), STEPS.bytes, [["out_bytes", "--good"]]],
  ["dropped", perSecond(short), STEPS.whole, [["dropped_messages", "--bad"]]],
  ["queued", bytes, STEPS.bytes, [["queued_bytes", "--waiting"]]],
]);

class ConnectionPage {
  /** @type {import("../shell/session.js").Session} */ #session;
  #id;
  #history = new History();
  #wanted = LOSSES_SHOWN; // losses
  /** @type {[Chart, typeof CHARTS[number][3]][]} */ charts;

  /** @param {Shell} shell @param {number} id @param {AbortSignal} signal */
  constructor(shell, id, signal) {
    this.#session = shell.session;
    this.#id = id;
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
      this.#askLosses().catch((error) => complain(this.problem, reason(error)));
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
    const fail = (/** @type {unknown} */ error) => complain(this.problem, reason(error));
    poll(this.#session, ASK_MS, () => this.#ask(), signal, fail);
    if (this.#session.mayAsk(LOSSES_TOPIC)) poll(this.#session, ASK_MS, () => this.#askLosses(), signal, fail);
    this.#session.onReady(() => this.#history.forget(), signal);
  }

  async #ask() {
    const [row] = await this.#session.ask(WHO_TOPIC, { id: this.#id, history: true });
    this.element.dataset.state = row ? "there" : "gone";
    complain(this.problem, row ? "" : words.connection.gone);
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
    renew(this.losses, JSON.stringify(found), () => found.map(({ at, messages, why }) =>
      element("tr", {}, element("td", {}, moment(at)), element("td", {}, why), element("td", {}, whole(messages)))));
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
    renew(this.prefixes, row.sample.join("\n"), () => row.sample.map((prefix) => element("li", { class: "cut", title: prefix }, prefix || words.connection.everything)));
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
}
