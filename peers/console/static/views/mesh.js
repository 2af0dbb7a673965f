/**
 * Mesh: hubs, links and Zeeks (`$hub/mesh/graph`, every three seconds), the way of a topic, services, names, nodes of Zeek
 * clusters, and stores: of each of these the first page.
 */

import { untyped } from "../hub.js";
import { card, complain, element, form, heads, say, shape } from "../parts/element.js";
import { bytes, complaint, duration, perSecond, short, visible, whole } from "../parts/figures.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";

/**
 * @import { Hub, Served, Store as Listed, Traced } from "../feeds/services.d.ts"
 * @import { StoreEntry } from "../hub.js"
 * @import { Session } from "../shell/session.js"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.mesh;
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
  /** @type {HTMLElement} */ hubs;
  /** @type {HTMLElement} */ services;
  /** @type {HTMLElement} */ names;
  /** @type {HTMLElement} */ nodes;
  #drawn = "";

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#session = shell.session;
    this.way = new Way(shell, (links) => {
      this.#way = links;
      this.#draw();
    }, signal);
    this.stores = new Stores(shell.session, signal);
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
    poll(shell.session, ASK_MS, () => this.#ask(), signal, (error) => complain(this.problem, error));
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
    complain(this.problem, null);
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
   * Ask for a list; empty if the user may not ask for it.
   * @template {"$hub/services" | "$hub/names" | "$hub/nodes" | "$hub/stores"} Topic
   * @param {Topic} topic @returns {Promise<import("../feeds/services.d.ts").Answers[Topic] | []>}
   */
  async #list(topic) {
    return this.#session.mayAsk(topic) ? this.#session.ask(topic, null) : [];
  }

  // Who serves a prefix: connections of this hub, and other hubs.
  /** @param {Served} row @param {Map<string, string>} hubName @returns {Part[]} */
  #servers({ connections, connections_total: all, hubs, hubs_total: allHubs }, hubName) {
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
}

// Return a table with a title, which is hidden while it has no rows.
/** @param {string} id @param {string} title @param {string[]} columns */
function listing(id, title, columns) {
  return element(
    "section", { class: `card listing ${id}`, "aria-label": title, hidden: true },
    element("h2", {}, title),
    element("table", {}, heads(columns), element("tbody", { id: `mesh-${id}` })),
    element("p", { class: "quiet told-line", id: `mesh-${id}-told` }),
  );
}

/**
 * Show rows, each a list of cells: a text, or several parts, of which those with the id of a connection lead to it.
 * @param {HTMLElement} list @param {(string | Part[])[][]} rows
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
    this.#shell = shell;
    this.#onFound = onFound;
    this.topic = element("input", { id: "way-topic", type: "text", spellcheck: "false", maxlength: 1024, placeholder: "/plant/east/press-00", "aria-label": said.wayOf, "data-search": true });
    const go = () => shell.go("mesh", [], { topic: this.topic.value });
    this.told = element("p", { id: "way-told", class: "quiet told-line", role: "status" });
    this.rows = element("tbody", { id: "way" });
    this.table = element("table", { class: "way", hidden: true }, heads(said.wayColumns), this.rows);
    this.element = card(
      said.way, { hidden: !shell.session.mayAsk(TRACE_TOPIC) },
      form(go, { signal }, this.topic, element("button", { type: "submit" }, said.find)),
      this.table, this.told,
    );
  }

  /** Ask for the way of a topic; an empty one forgets it. @param {string} topic */
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
    const shown = inOrder(rows).slice(0, WAYS);
    this.table.hidden = rows.length === 0;
    this.rows.replaceChildren(...shown.map(row));
    say(this.told, problem || (rows.length > shown.length ? said.more(rows.length - shown.length) : ""));
    this.#onFound(new Set(rows.filter((one) => one.before !== null).map((one) => `${one.before} ${one.hub}`)));
  }
}

/** Each hub behind the one before it, with how many are before it. @param {Traced[]} rows */
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
  const isUnreachable = one.before === null && !one.own;
  const told = one.barred ? said.barred : isUnreachable ? said.unreachable : one.wants ? said.wanted : said.passed;
  const name = element("td", { class: "cut", title: one.hub }, visible(one.name || one.hub));
  name.style.paddingLeft = `${14 + 18 * Math.min(hops, 20)}px`;
  return element("tr", {}, name, element("td", { class: "cut", title: told }, told), element("td", {}, whole(one.cost)));
}

// The picture of a mesh: hubs, Zeeks and links, with the traffic of this hub's links, and the way of a topic.

/** More hubs and Zeeks than this are no picture any more. */
const PICTURED = 60;

/** Half of the square that is drawn in, and room for names beside nodes. */
const HALF = 250;
const MARGIN_X = 90;
const MARGIN_Y = 34;
/** Most pixels for a unit of the drawing. */
const LARGEST = 1.4;
const RADIUS = { own: 12, hub: 9, lost: 9, zeek: 6 };

/** A longer name is cut, characters. */
const NAME = 24;

/** Return how many there are to be drawn. @param {Hub[]} hubs */
function pictured(hubs) {
  return hubs.length + new Set(hubs.flatMap(({ zeeks }) => Object.keys(zeeks))).size;
}

/**
 * @param {Hub[]} hubs The answer of `$hub/mesh/graph`.
 * @param {Map<string, string>} rates What links carry, as the hub at one end has counted it: by the ids of this and the other one.
 * @param {Set<string>} way Links of a way, as `before id`.
 */
function picture(hubs, rates, way) {
  const { nodes, edges } = layout(hubs);
  const at = new Map(nodes.map((node) => [node.id, { ...node, x: HALF * node.x, y: HALF * 0.6 * node.y }]));
  const placed = (/** @type {string} */ id) => /** @type {Node} */ (at.get(id));
  const lines = edges.map(({ one, other, kind }) => {
    const isWay = way.has(`${one} ${other}`) || way.has(`${other} ${one}`);
    return line(placed(one), placed(other), isWay ? `${kind} way` : kind);
  });
  const labels = edges.flatMap(({ one, other }) => {
    const said = rates.get(`${one} ${other}`) ?? rates.get(`${other} ${one}`);
    return said === undefined ? [] : [text((placed(one).x + placed(other).x) / 2, (placed(one).y + placed(other).y) / 2 - 5, said, "rate")];
  });
  const [left, right] = range([...at.values()].map(({ x }) => x), MARGIN_X);
  const [top, bottom] = range([...at.values()].map(({ y }) => y), MARGIN_Y);
  const made = shape(
    "svg", { viewBox: [left, top, right - left, bottom - top].map((it) => it.toFixed(1)).join(" "), class: "mesh-picture", role: "img", "aria-label": words.mesh.picture(hubs.length) },
    ...lines, ...[...at.values()].map(disc), ...labels,
  );
  made.style.maxWidth = `${Math.round(LARGEST * (right - left))}px`; // few hubs are not drawn as large as the page
  return made;
}

// Return from where to where something reaches, with room for what is written beside it.
/** @param {number[]} places @param {number} margin */
function range(places, margin) {
  return [Math.min(...places) - margin, Math.max(...places) + margin];
}

/** @param {Node} from @param {Node} to @param {string} kind */
function line(from, to, kind) {
  return shape("line", { x1: from.x.toFixed(1), y1: from.y.toFixed(1), x2: to.x.toFixed(1), y2: to.y.toFixed(1), class: kind });
}

/** @param {Node} node */
function disc({ id, name, kind, x, y }) {
  const called = visible(name || id.slice(0, 8));
  const shown = called.length > NAME ? `${called.slice(0, NAME)}…` : called;
  const title = shape("title", {}, `${called} ${id}`);
  const circle = shape("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: RADIUS[kind] });
  return shape("g", { class: `node-${kind}` }, title, circle, text(x, y + RADIUS[kind] + 14, shown, "name"));
}

/** @param {number} x @param {number} y @param {string} said @param {string} kind */
function text(x, y, said, kind) {
  return shape("text", { x: x.toFixed(1), y: y.toFixed(1), class: kind }, said);
}

// `layout`: where hubs and Zeeks are drawn: the asked hub in the middle, all others on rings around it.

/** The widest sector of a node, except the middle one: nodes behind it stay on its side. */
const WIDEST = Math.PI;

/**
 * @typedef {{id: string, name: string, kind: "own" | "hub" | "lost" | "zeek", x: number, y: number}} Node
 * @typedef {{one: string, other: string, kind: "link" | "gateway" | "zeek"}} Edge
 *   `one`: Id, the lower of the two.
 */

/** @param {Hub[]} hubs The answer of `$hub/mesh/graph`. @returns {{nodes: Node[], edges: Edge[]}} */
function layout(hubs) {
  /** @type {Map<string, Node>} */
  const nodes = new Map();
  /** @type {Map<string, Edge>} */
  const edges = new Map();
  const kindOf = (/** @type {Hub} */ hub) => (hub.own ? "own" : hub.lost === null ? "hub" : "lost");
  for (const hub of hubs) nodes.set(hub.hub, { id: hub.hub, name: hub.name, kind: kindOf(hub), x: 0, y: 0 });
  for (const hub of hubs) {
    for (const other of Object.keys(hub.links)) {
      if (nodes.has(other)) join(edges, hub.hub, other, "link");
    }
    for (const [zeek, isGateway] of Object.entries(hub.zeeks)) {
      if (!nodes.has(zeek)) nodes.set(zeek, { id: zeek, name: "", kind: "zeek", x: 0, y: 0 });
      join(edges, hub.hub, zeek, isGateway ? "gateway" : "zeek");
    }
  }
  place(nodes, [...edges.values()]);
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

/** @param {Map<string, Edge>} edges @param {string} from @param {string} to @param {Edge["kind"]} kind */
function join(edges, from, to, kind) {
  const [one, other] = from < to ? [from, to] : [to, from];
  edges.set(`${one} ${other}`, { one, other, kind });
}

/** @param {Map<string, Node>} nodes @param {Edge[]} edges */
function place(nodes, edges) {
  const rings = ringsOf(nodes, edges);
  /** @type {Map<string, string[]>} Ids of the nodes behind a node. */
  const beyond = new Map();
  for (const { id, before } of rings.slice(1).flat()) beyond.set(before, [...(beyond.get(before) ?? []), id].sort());
  /** @type {Map<string, number>} How many ways end beyond each. */
  const weights = new Map();
  for (const { id } of rings.flat().reverse()) {
    weights.set(id, (beyond.get(id) ?? []).reduce((sum, other) => sum + (weights.get(other) ?? 0), 0) || 1);
  }
  const weightOf = (/** @type {string} */ id) => weights.get(id) ?? 1;
  /** @type {Map<string, {angle: number, width: number}>} Of each the middle of its sector. */
  const sectors = new Map(rings[0]?.map(({ id }) => [id, { angle: 0, width: 2 * Math.PI }]));
  rings.forEach((ring, depth) => {
    const radius = depth / Math.max(1, rings.length - 1);
    for (const { id } of ring) {
      const { angle, width } = sectors.get(id) ?? { angle: 0, width: 0 };
      Object.assign(/** @type {Node} */ (nodes.get(id)), { x: radius * Math.cos(angle), y: radius * Math.sin(angle) });
      const others = beyond.get(id) ?? [];
      const part = others.length === 0 ? 0 : width / others.reduce((sum, other) => sum + weightOf(other), 0);
      // The first one beyond the middle stands to its right, as a picture has more room there than above.
      let from = depth === 0 ? -(part * weightOf(others[0] ?? "")) / 2 : angle - width / 2;
      for (const other of others) {
        const own = part * weightOf(other);
        sectors.set(other, { angle: from + own / 2, width: Math.min(own, WIDEST) });
        from += own;
      }
    }
  });
}

// Return nodes by their distance in links, each with the node before it; unreachable ones are in the outermost ring.
/** @param {Map<string, Node>} nodes @param {Edge[]} edges */
function ringsOf(nodes, edges) {
  /** @type {Map<string, string[]>} */
  const near = new Map([...nodes.keys()].sort().map((id) => [id, []]));
  for (const { one, other } of edges) {
    near.get(one)?.push(other);
    near.get(other)?.push(one);
  }
  const own = [...nodes.values()].find(({ kind }) => kind === "own");
  const seen = new Set();
  /** @type {{id: string, before: string}[][]} */
  const rings = [];
  let ring = own === undefined ? [] : [{ id: own.id, before: own.id }];
  while (ring.length > 0) {
    for (const { id } of ring) seen.add(id);
    rings.push(ring);
    const next = new Map();
    for (const { id } of ring) {
      for (const other of (near.get(id) ?? []).sort()) if (!seen.has(other) && !next.has(other)) next.set(other, { id: other, before: id });
    }
    ring = [...next.values()];
  }
  const others = [...near.keys()].filter((id) => !seen.has(id));
  if (others.length > 0) rings.push(others.map((id) => ({ id, before: own?.id ?? id })));
  return rings;
}

// The stores of this hub, and the first `ENTRIES` entries of one that is opened.

/** So many stores, and entries, are shown; and so much of a key or value, characters. */
const STORES = 200;
const ENTRIES = 200;
const CHARACTERS = 500;

class Stores {
  #session;
  #open = ""; // name

  /** @param {Session} session @param {AbortSignal} signal */
  constructor(session, signal) {
    this.#session = session;
    /** @param {string} id @param {string[]} columns @returns {[HTMLElement, HTMLTableSectionElement]} */
    const table = (id, columns) => {
      const rows = element("tbody", { id });
      return [element("table", { class: id }, heads(columns), rows), rows];
    };
    const [list, rows] = table("stores", said.storeColumns);
    const [entries, entryRows] = table("entries", said.entryColumns);
    this.rows = rows;
    this.entryRows = entryRows;
    this.told = element("p", { id: "entries-told", class: "quiet told-line", role: "status" });
    this.name = element("h3", { id: "entries-of" });
    this.opened = element("div", { hidden: true }, this.name, entries, this.told);
    this.element = card(said.stores, { hidden: true }, list, this.opened);
    rows.addEventListener("click", ({ target }) => {
      const name = target instanceof Element ? target.closest("button")?.dataset.store : undefined;
      if (name !== undefined) this.#show(name);
    }, { signal });
  }

  /** Show them as the hub lists them. @param {Listed[]} listed */
  set(listed) {
    this.element.hidden = listed.length === 0;
    const shown = listed.slice(0, STORES);
    if (JSON.stringify(shown.map(({ name }) => name)) !== this.rows.dataset.names) {
      this.rows.dataset.names = JSON.stringify(shown.map(({ name }) => name));
      this.rows.replaceChildren(...shown.map(({ name }) => storeRow(name)));
    }
    shown.forEach((one, at) => {
      const { cells } = this.rows.rows[at];
      [visible(one.fed_from.join(" ")), whole(one.entries), bytes(one.bytes), short(one.commands_total), whole(one.refused_total)]
        .forEach((text, column) => say(cells[column + 1], text));
    });
  }

  /** @param {string} name */
  async #show(name) {
    this.#open = name;
    this.opened.hidden = false;
    say(this.name, visible(name));
    this.entryRows.replaceChildren();
    say(this.told, said.reading);
    /** @type {HTMLElement[]} */
    const found = [];
    let isMore = false;
    try {
      for await (const entry of this.#session.client.store(name).entries()) {
        isMore = found.length === ENTRIES;
        if (isMore || this.#open !== name) break;
        found.push(entryRow(entry));
      }
      if (this.#open !== name) return;
      say(this.told, isMore ? said.firstEntries(ENTRIES) : found.length === 0 ? said.noEntries : "");
    } catch (error) {
      if (this.#open === name) say(this.told, complaint(error));
    }
    if (this.#open === name) this.entryRows.replaceChildren(...found);
  }
}

/** @param {string} name */
function storeRow(name) {
  const button = element("button", { type: "button", class: "cut", dataset: { store: name } }, visible(name));
  return element("tr", {}, element("td", { class: "cut" }, button), ...Array.from({ length: 5 }, () => element("td", { class: "cut" })));
}

/** @param {StoreEntry} entry */
function entryRow({ key, value, version, expiresS }) {
  const [keyText, valueText] = [textOf(key), textOf(value)];
  return element(
    "tr", {},
    element("td", { class: "cut", title: keyText }, keyText), element("td", { class: "cut", title: valueText }, valueText),
    element("td", {}, whole(version)), element("td", {}, expiresS === null ? "" : duration(expiresS)),
  );
}

/** @param {unknown} value */
function textOf(value) {
  const text = JSON.stringify(untyped(value)) ?? "";
  return visible(text.length > CHARACTERS ? `${text.slice(0, CHARACTERS)}…` : text);
}
