/**
 * Mesh: the hubs that this one is linked with, their links and Zeeks, the way of a topic, names, nodes of Zeek clusters,
 * and stores.
 *
 * Asks `$hub/mesh/graph` every three seconds, all of its pages, and beside it what one may of `$hub/names`, `$hub/nodes`
 * and `$hub/stores`. The topic whose way is shown stands in the address (`?topic=`).
 *
 * Owner of the state: `Mesh`: what was told last, for rates. Bound: `PAGES` pages, `ROWS` rows of a table, and a picture
 * of `PICTURED` hubs and Zeeks; more stand in the table alone. Cost for the hub: as `peers/admin/graph.py` says.
 */

import { element, say } from "../parts/element.js";
import { duration, short, whole } from "../parts/figures.js";
import { poll } from "../parts/polling.js";
import { visible } from "../parts/visible.js";
import { words } from "../words.js";
import { PICTURED, picture, pictured } from "./mesh/picture.js";
import { Stores } from "./mesh/stores.js";
import { Way } from "./mesh/way.js";

const GRAPH_TOPIC = "$hub/mesh/graph";
const NAMES_TOPIC = "$hub/names";
const NODES_TOPIC = "$hub/nodes";
const STORES_TOPIC = "$hub/stores";

/** How often it is asked, milliseconds. */
const ASK_MS = 3_000;

/** Pages of about 1,000 hubs, links and Zeeks. */
const PAGES = 12;

const ROWS = 300;

/** @type {import("../shell/views.js").View} */
export const mesh = {
  name: "mesh",
  title: words.mesh.title,
  isFor: (session) => session.mayAsk(GRAPH_TOPIC),
  open: (shell, signal) => new Mesh(shell, signal),
};

class Mesh {
  #session;
  #before = new Map(); // id of a hub that is linked with this one → {link, at}
  #rates = new Map(); // the same → messages a second, {received, sent}
  #hubs = [];
  #way = new Set();
  #topic = null;
  #drawn = "";

  constructor(shell, signal) {
    this.#session = shell.session;
    this.way = new Way(shell, (links) => {
      this.#way = links;
      this.#draw();
    }, signal);
    this.stores = new Stores(shell.session, signal);
    this.#make();
    poll(shell.session, ASK_MS, () => this.#ask(), signal, (error) => this.#complain(error));
    shell.session.onReady(() => this.#before.clear(), signal);
  }

  show({ parameters }) {
    const topic = parameters.get("topic") ?? "";
    if (topic === this.#topic && topic === "") return;
    this.#topic = topic;
    this.way.find(topic);
  }

  async #ask() {
    const { client } = this.#session;
    const hubs = await this.#askGraph();
    this.#measure(hubs);
    this.#hubs = hubs;
    this.#complain(null);
    this.#draw();
    const list = (topic) => (this.#session.mayAsk(topic) ? client.request(topic, null) : []);
    const [names, nodes, stores] = await Promise.all([list(NAMES_TOPIC), list(NODES_TOPIC), list(STORES_TOPIC)]);
    const hubName = new Map(hubs.map(({ hub, name }) => [hub, name]));
    fill(this.names, names.map((one) => [one.name, one.labels.join(" "), hubName.get(one.hub) || one.hub]));
    fill(this.nodes, nodes.map((one) => [one.name, one.cluster, one.id]));
    this.stores.set(stores);
  }

  async #askGraph() {
    const hubs = [];
    for (let pages = 0; pages < PAGES; pages += 1) {
      const after = hubs.at(-1)?.hub;
      const page = await this.#session.client.request(GRAPH_TOPIC, after === undefined ? null : { after });
      if (page.length === 0 || page.at(-1).hub === after) break;
      hubs.push(...page);
    }
    return hubs;
  }

  /** Find out what each link of this hub carries, between two looks. */
  #measure(hubs) {
    const at = performance.now() / 1000;
    const now = new Map();
    const rates = new Map();
    for (const { hub, link } of hubs) {
      if (link === null) continue;
      now.set(hub, { link, at });
      const before = this.#before.get(hub);
      const seconds = before === undefined ? 0 : at - before.at;
      if (seconds <= 0 || before.link.sent_messages > link.sent_messages || before.link.received_messages > link.received_messages) continue;
      rates.set(hub, {
        received: (link.received_messages - before.link.received_messages) / seconds,
        sent: (link.sent_messages - before.link.sent_messages) / seconds,
      });
    }
    this.#before = now;
    this.#rates = rates;
  }

  #draw() {
    const { mesh: said } = words;
    const hubs = this.#hubs;
    if (hubs.length === 0) return;
    const lost = hubs.filter((one) => one.lost !== null).length;
    this.card.dataset.state = lost > 0 ? "bad" : "good";
    say(this.sentence, hubs.length === 1 ? said.alone : said.state(hubs.length, hubs.find(({ own }) => own)?.name ?? "", lost));
    this.element.dataset.hubs = String(hubs.length);
    const rates = new Map([...this.#rates].map(([hub, { received, sent }]) => [hub, said.carries(short(received), short(sent))]));
    const isPicture = pictured(hubs) > 1 && pictured(hubs) <= PICTURED;
    this.picture.hidden = !isPicture;
    const drawn = JSON.stringify([hubs.map(({ hub, name, lost: since, links, zeeks }) => [hub, name, since !== null, links, zeeks]), [...rates], [...this.#way]]);
    if (isPicture && drawn !== this.#drawn) this.picture.replaceChildren(picture(hubs, rates, this.#way));
    this.#drawn = drawn;
    const names = new Map(hubs.map(({ hub, name }) => [hub, name || hub]));
    fill(this.hubs, hubs.map((one) => this.#row(one, names)), hubs.map((one) => (one.lost === null ? "good" : "bad")));
  }

  #row(one, names) {
    const { mesh: said } = words;
    const rate = this.#rates.get(one.hub);
    const { link } = one;
    const zeeks = Object.values(one.zeeks);
    return [
      one.name || one.hub,
      one.lost !== null ? said.lost(duration(Math.max(0, Date.now() / 1000 - one.lost))) : one.own ? said.own : said.reached,
      Object.keys(one.links).map((id) => names.get(id) ?? id).join(", "),
      whole(one.prefixes),
      zeeks.length === 0 ? "" : said.zeeks(zeeks.length, zeeks.filter(Boolean).length),
      rate === undefined ? "" : `${short(rate.received)}/s`,
      rate === undefined ? "" : `${short(rate.sent)}/s`,
      link === null || link.lag_s === null ? "" : duration(link.lag_s),
      link === null ? "" : whole(link.dropped_messages),
    ];
  }

  #complain(error) {
    this.problem.hidden = error === null;
    say(this.problem, error === null ? "" : `${error.code ? `${error.code}: ` : ""}${error.message}`);
  }

  #make() {
    const { mesh: said } = words;
    this.sentence = element("p", { id: "mesh-state", role: "status" }, said.asking);
    this.problem = element("p", { id: "mesh-problem", class: "notice", role: "alert", hidden: true });
    this.card = element("section", { class: "card sentence", "aria-label": said.about }, this.sentence);
    this.picture = element("section", { id: "mesh-picture", class: "card", hidden: true });
    this.hubs = listing("hubs", said.hubs, said.hubColumns);
    this.names = listing("names", said.names, said.nameColumns);
    this.nodes = listing("nodes", said.nodes, said.nodeColumns);
    this.element = element(
      "div", { class: "mesh stack" },
      this.card, this.problem, this.picture, this.hubs, this.way.element, this.names, this.nodes, this.stores.element,
    );
  }
}

/** Return a table with a title, which is hidden while it has no rows. */
function listing(id, title, columns) {
  return element(
    "section", { class: `card listing ${id}`, "aria-label": title, hidden: true },
    element("h2", {}, title),
    element("table", {}, element("thead", {}, element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it)))), element("tbody", { id: `mesh-${id}` })),
    element("p", { class: "quiet told-line", id: `mesh-${id}-told` }),
  );
}

/** Show rows of texts; `states` are marks of the rows. */
function fill(list, rows, states = []) {
  list.hidden = rows.length === 0;
  const shown = rows.slice(0, ROWS).map((cells) => cells.map((text) => visible(text)));
  const made = JSON.stringify([shown, states.slice(0, ROWS)]);
  if (list.dataset.shown === made) return;
  list.dataset.shown = made;
  list.querySelector("tbody").replaceChildren(...shown.map((cells, at) =>
    element("tr", { dataset: { state: states[at] ?? "" } }, ...cells.map((text) => element("td", { class: "cut", title: text }, text)))));
  say(list.querySelector("p"), rows.length > ROWS ? words.mesh.more(rows.length - ROWS) : "");
}
