/**
 * Mesh: the hubs that this one is linked with, their links and Zeeks, the way of a topic, who serves what, names, nodes
 * of Zeek clusters, and stores.
 *
 * Asks `$hub/mesh/graph` every three seconds, all of its pages, and beside it what one may of `$hub/services`,
 * `$hub/names`, `$hub/nodes` and `$hub/stores`: of each of these the first page. The topic whose way is shown stands in the address (`?topic=`).
 *
 * Owner of the state: `Mesh`: what was told last. Bound: `PAGES` pages, `ROWS` rows of a table, and a picture
 * of `PICTURED` hubs and Zeeks; more stand in the table alone. Cost for the hub: as `peers/admin/graph.py` says.
 */

import { complaint } from "../parts/complaint.js";
import { element, say } from "../parts/element.js";
import { duration, perSecond, short, whole } from "../parts/figures.js";
import { poll } from "../parts/polling.js";
import { visible } from "../parts/visible.js";
import { fragmentOf } from "../shell/place.js";
import { words } from "../words.js";
import { PICTURED, picture, pictured } from "./mesh/picture.js";
import { Stores } from "./mesh/stores.js";
import { Way } from "./mesh/way.js";

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
 * @import { Hub, Served } from "../feeds/services.d.ts"
 * @import { Place } from "../shell/place.js"
 * @import { Shell } from "../shell/views.js"
 *
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
  /** @type {Hub[]} */
  #hubs = [];
  /** @type {Set<string>} */
  #way = new Set();
  /** @type {string | null} */
  #topic = null;
  /** @type {HTMLElement} */
  sentence;
  /** @type {HTMLElement} */
  problem;
  /** @type {HTMLElement} */
  card;
  /** @type {HTMLElement} */
  picture;
  /** @type {HTMLElement} */
  hubs;
  /** @type {HTMLElement} */
  services;
  /** @type {HTMLElement} */
  names;
  /** @type {HTMLElement} */
  nodes;
  /** @type {HTMLElement} */
  element;
  #drawn = "";

  /**
   * @param {Shell} shell
   * @param {AbortSignal} signal
   */
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
   *
   * @template {"$hub/services" | "$hub/names" | "$hub/nodes" | "$hub/stores"} Topic
   * @param {Topic} topic
   * @returns {Promise<import("../feeds/services.d.ts").Answers[Topic] | []>}
   */
  async #list(topic) {
    return this.#session.mayAsk(topic) ? this.#session.ask(topic, null) : [];
  }

  /**
   * Who serves a prefix: connections of this hub, and other hubs.
   *
   * @param {Served} row
   * @param {Map<string, string>} hubName
   * @returns {Part[]}
   */
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

  /**
   * @param {Hub} one
   * @param {Map<string, string>} names
   */
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

/**
 * Return a table with a title, which is hidden while it has no rows.
 *
 * @param {string} id
 * @param {string} title
 * @param {string[]} columns
 */
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
 *
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
