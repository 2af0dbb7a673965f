/** The picture of a mesh: hubs, Zeeks and links, with the traffic of this hub's links, and the way of a topic. */

import { shape } from "../../parts/element.js";
import { visible } from "../../parts/figures.js";
import { words } from "../../words.js";

/** @import { Hub } from "../../feeds/services.d.ts" */

/** More hubs and Zeeks than this are no picture any more. */
export const PICTURED = 60;

/** Of the square that is drawn in, and of what stands in it. */
const HALF = 250;
const MARGIN_X = 90;
const MARGIN_Y = 34;
/** Most pixels for a unit of the drawing. */
const LARGEST = 1.4;
const RADIUS = { own: 12, hub: 9, lost: 9, zeek: 6 };

/** A longer name is cut, characters. */
const NAME = 24;

// Return how many there are to be drawn.
/** @param {Hub[]} hubs */
export function pictured(hubs) {
  return hubs.length + new Set(hubs.flatMap(({ zeeks }) => Object.keys(zeeks))).size;
}

/**
 * @param {Hub[]} hubs As `$hub/mesh/graph` tells them.
 * @param {Map<string, string>} rates What links carry, as the hub at one end has counted it: by the ids of this and the other one.
 * @param {Set<string>} way Links of a way, as `before id`.
 */
export function picture(hubs, rates, way) {
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

// `layout`: where the hubs and Zeeks of a mesh are drawn: the hub that is asked in the middle, all others on rings around

/** The widest sector of anybody but the middle: what is beyond him stays on his side. */
const WIDEST = Math.PI;

/**
 * @typedef {{id: string, name: string, kind: "own" | "hub" | "lost" | "zeek", x: number, y: number}} Node
 *
 * @typedef {{one: string, other: string, kind: "link" | "gateway" | "zeek"}} Edge
 *   `one`: Id, the lower of the two.
 */

/** @param {Hub[]} hubs As `$hub/mesh/graph` tells them. @returns {{nodes: Node[], edges: Edge[]}} */
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
  /** @type {Map<string, string[]>} Who stands beyond whom. */
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

// Return who is how many links away, each with the one before; unreachable ones are in the outermost ring.
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
