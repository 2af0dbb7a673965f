/**
 * Mesh: hubs, links and Zeeks (`$hub/mesh/graph`, every three seconds), the way of a topic, services, names, nodes of Zeek
 * clusters, and stores: of each of these the first page.
 */

import { element, say } from "../parts/element.js";
import { complaint, duration, perSecond, short, visible, whole } from "../parts/figures.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";
import { picture, PICTURED, pictured } from "./mesh/picture.js";
import { Stores } from "./mesh/stores.js";

/**
 * @import { Hub, Served, Traced } from "../feeds/services.d.ts"
 * @import { Place, Shell } from "../shell/views.js"
 */

const GRAPH_TOPIC = "$hub/mesh/graph";
const SERVICES_TOPIC = "$hub/services";
const NAMES_TOPIC = "$hub/names";
const NODES_TOPIC = "$hub/nodes";
const STORES_TOPIC = "$hub/stores";
const WHO_TOPIC = "$hub/who";

/** How often it is asked, milliseconds. */
const ASK_MS = 3_000;

/** Pages of about 1,000 hubs, links and Zeeks. */
const PAGES = 12;

const ROWS = 300;

/**
 * @typedef {object} Part Of a cell.
 * @property {string} text
 * @property {number | null} id Of the connection that it leads to.
 */

/** @type {import("../shell/views.js").View} */
export const mesh = {
  name: "mesh",
  title: words.mesh.title,
  isFor: (session) => session.mayAsk(GRAPH_TOPIC),
  open: (shell, signal) => new Mesh(shell, signal),
};

class Mesh {
  #session;
  /** @type {Hub[]} */ #hubs = [];
  /** @type {Set<string>} */ #way = new Set();
  /** @type {string | null} */ #topic = null;
  /** @type {HTMLElement} */ sentence;
  /** @type {HTMLElement} */ problem;
  /** @type {HTMLElement} */ card;
  /** @type {HTMLElement} */ picture;
  /** @type {HTMLElement} */ hubs;
  /** @type {HTMLElement} */ services;
  /** @type {HTMLElement} */ names;
  /** @type {HTMLElement} */ nodes;
  /** @type {HTMLElement} */ element;
  #drawn = "";

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#session = shell.session;
    this.way = new Way(shell, (links) => {
      this.#way = links;
      this.#draw();
    }, signal);
    this.stores = new Stores(shell.session, signal);
    this.#make();
    poll(shell.session, ASK_MS, () => this.#ask(), signal, (error) => this.#complain(error));
  }

  /** @param {Place} place */
  show({ parameters }) {
    const topic = parameters.get("topic") ?? "";
    if (topic === this.#topic && topic === "") return;
    this.#topic = topic;
    this.way.find(topic);
  }

  async #ask() {
    const hubs = await this.#askGraph();
    this.#hubs = hubs;
    this.#complain(null);
    this.#draw();
    const [services, names, nodes, stores] = await Promise.all([
      this.#list(SERVICES_TOPIC), this.#list(NAMES_TOPIC), this.#list(NODES_TOPIC), this.#list(STORES_TOPIC),
    ]);
    const hubName = new Map(hubs.map(({ hub, name }) => [hub, name || hub]));
    fill(this.services, services.map((one) => [one.prefix, this.#servers(one, hubName), whole(one.pending)]));
    const own = this.#session.mayAsk(WHO_TOPIC) ? hubs.find((one) => one.own)?.hub : undefined;
    fill(this.names, names.map((one) => [
      one.name, one.labels.join(" "), [{ text: hubName.get(one.hub) ?? one.hub, id: one.hub === own ? one.owner : null }],
    ]));
    fill(this.nodes, nodes.map((one) => [one.name, one.cluster, one.id]));
    this.stores.set(stores);
  }

  /**
   * What the hub lists, where one may ask that.
   * @template {"$hub/services" | "$hub/names" | "$hub/nodes" | "$hub/stores"} Topic
   * @param {Topic} topic
   * @returns {Promise<import("../feeds/services.d.ts").Answers[Topic] | []>}
   */
  async #list(topic) {
    return this.#session.mayAsk(topic) ? this.#session.ask(topic, null) : [];
  }

  // Who serves a prefix: connections of this hub, and other hubs.
  /** @param {Served} row @param {Map<string, string>} hubName @returns {Part[]} */
  #servers({ connections, connections_total: all, hubs, hubs_total: allHubs }, hubName) {
    const { mesh: said } = words;
    const others = all - connections.length + allHubs - hubs.length;
    return [
      ...connections.map(({ id, name }) => ({ text: name || said.ownService, id })),
      ...hubs.map((hub) => ({ text: said.atHub(hubName.get(hub) ?? hub), id: null })),
      ...(others > 0 ? [{ text: said.more(others), id: null }] : []),
    ].map((one) => (this.#session.mayAsk(WHO_TOPIC) ? one : { ...one, id: null }));
  }

  async #askGraph() {
    /** @type {Hub[]} */
    const hubs = [];
    for (let pages = 0; pages < PAGES; pages += 1) {
      const after = hubs.at(-1)?.hub;
      const page = await this.#session.ask(GRAPH_TOPIC, after === undefined ? null : { after });
      if (page.length === 0 || page.at(-1)?.hub === after) break;
      hubs.push(...page);
    }
    return hubs;
  }

  #draw() {
    const { mesh: said } = words;
    const hubs = this.#hubs;
    if (hubs.length === 0) return;
    const lost = hubs.filter((one) => one.lost !== null).length;
    this.card.dataset.state = lost > 0 ? "bad" : "good";
    say(this.sentence, hubs.length === 1 ? said.alone : said.state(hubs.length, hubs.find(({ own }) => own)?.name ?? "", lost));
    this.element.dataset.hubs = String(hubs.length);
    const rates = new Map(hubs.flatMap(({ hub, link }) => (link?.rates ? [[`${link.at} ${hub}`, said.carries(short(link.rates.in_messages), short(link.rates.out_messages))]] : [])));
    const isPicture = pictured(hubs) > 1 && pictured(hubs) <= PICTURED;
    this.picture.hidden = !isPicture;
    const drawn = JSON.stringify([hubs.map(({ hub, name, lost: since, links, zeeks }) => [hub, name, since !== null, links, zeeks]), [...rates], [...this.#way]]);
    if (isPicture && drawn !== this.#drawn) this.picture.replaceChildren(picture(hubs, rates, this.#way));
    this.#drawn = drawn;
    const names = new Map(hubs.map(({ hub, name }) => [hub, name || hub]));
    fill(this.hubs, hubs.map((one) => this.#row(one, names)), hubs.map((one) => (one.lost === null ? "good" : "bad")));
  }

  /** @param {Hub} one @param {Map<string, string>} names */
  #row(one, names) {
    const { mesh: said } = words;
    const { link } = one;
    const zeeks = Object.values(one.zeeks);
    return [
      one.name || one.hub,
      one.lost !== null ? said.lost(duration(Math.max(0, Date.now() / 1000 - one.lost))) : one.own ? said.own : said.reached,
      Object.keys(one.links).map((id) => names.get(id) ?? id).join(", "),
      one.incomplete ? said.everything : whole(one.prefixes),
      zeeks.length === 0 ? "" : said.zeeks(zeeks.length, zeeks.filter(Boolean).length),
      link?.rates ? perSecond(short)(link.rates.in_messages) : "",
      link?.rates ? perSecond(short)(link.rates.out_messages) : "",
      link === null || link.lag_s === null ? "" : duration(link.lag_s),
      link === null ? "" : whole(link.dropped_messages),
    ];
  }

  /** @param {unknown} error */
  #complain(error) {
    this.problem.hidden = error === null;
    say(this.problem, error === null ? "" : complaint(error));
  }

  #make() {
    const { mesh: said } = words;
    this.sentence = element("p", { id: "mesh-state", role: "status" }, said.asking);
    this.problem = element("p", { id: "mesh-problem", class: "notice", role: "alert", hidden: true });
    this.card = element("section", { class: "card sentence", "aria-label": said.about }, this.sentence);
    this.picture = element("section", { id: "mesh-picture", class: "card", hidden: true });
    this.hubs = listing("hubs", said.hubs, said.hubColumns);
    this.services = listing("services", said.services, said.serviceColumns);
    this.names = listing("names", said.names, said.nameColumns);
    this.nodes = listing("nodes", said.nodes, said.nodeColumns);
    this.element = element(
      "div", { class: "mesh stack" },
      this.card, this.problem, this.picture, this.hubs, this.way.element, this.services, this.names, this.nodes, this.stores.element,
    );
  }
}

// Return a table with a title, which is hidden while it has no rows.
/** @param {string} id @param {string} title @param {string[]} columns */
function listing(id, title, columns) {
  return element(
    "section", { class: `card listing ${id}`, "aria-label": title, hidden: true },
    element("h2", {}, title),
    element("table", {}, element("thead", {}, element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it)))), element("tbody", { id: `mesh-${id}` })),
    element("p", { class: "quiet told-line", id: `mesh-${id}-told` }),
  );
}

/**
 * Show rows, each a list of cells: a text, or several parts, of which those with the id of a connection lead to it.
 * @param {HTMLElement} list
 * @param {(string | Part[])[][]} rows
 * @param {string[]} [states] Marks of the rows.
 */
function fill(list, rows, states = []) {
  list.hidden = rows.length === 0;
  const shown = rows.slice(0, ROWS).map((cells) => cells.map((one) => (typeof one === "string" ? [{ text: one, id: null }] : one)));
  const made = JSON.stringify([shown, states.slice(0, ROWS)]);
  if (list.dataset.shown === made) return;
  list.dataset.shown = made;
  list.querySelector("tbody")?.replaceChildren(...shown.map((cells, at) => element("tr", { dataset: { state: states[at] ?? "" } }, ...cells.map(cell))));
  say(/** @type {HTMLElement} */ (list.querySelector("p")), rows.length > ROWS ? words.mesh.more(rows.length - ROWS) : "");
}

/** @param {Part[]} parts */
function cell(parts) {
  const said = parts.map(({ text }) => visible(text));
  const made = parts.flatMap(({ id }, at) => [
    ...(at > 0 ? [", "] : []),
    id === null ? said[at] : element("a", { href: fragmentOf("connections", [String(id)]) }, said[at]),
  ]);
  return element("td", { class: "cut", title: said.join(", ") }, ...made);
}

// The way of a topic's messages from this hub, as it knows it (`$hub/mesh/trace`, as `hub trace` asks it).

const TRACE_TOPIC = "$hub/mesh/trace";

/** Rows that are shown. */
const WAYS = 200;

class Way {
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

  // Ask for the way of a topic; an empty one forgets it.
  /** @param {string} topic */
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

  /** @param {Traced[]} rows @param {string} problem */
  #show(rows, problem) {
    const { mesh: said } = words;
    const shown = inOrder(rows).slice(0, WAYS);
    this.table.hidden = rows.length === 0;
    this.rows.replaceChildren(...shown.map(row));
    say(this.told, problem || (rows.length > shown.length ? said.more(rows.length - shown.length) : ""));
    this.#onFound(new Set(rows.filter((one) => one.before !== null).map((one) => `${one.before} ${one.hub}`)));
  }
}

// Each hub behind the one before it, with how many are before it.
/** @param {Traced[]} rows */
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
