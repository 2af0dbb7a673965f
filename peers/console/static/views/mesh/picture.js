/**
 * The picture of a mesh: hubs, Zeeks and links, with what this hub's links carry, and the way of a topic.
 *
 * Owner of the state: nobody; it is made anew with each look that has changed. A screen reader is told to read the table.
 */

import { shape } from "../../parts/element.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";
import { layout } from "./layout.js";

/**
 * @import { Hub } from "../../feeds/services.d.ts"
 * @import { Node } from "./layout.js"
 */

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

/**
 * Return how many there are to be drawn.
 *
 * @param {Hub[]} hubs
 */
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

/**
 * Return from where to where something reaches, with room for what is written beside it.
 *
 * @param {number[]} places
 * @param {number} margin
 */
function range(places, margin) {
  return [Math.min(...places) - margin, Math.max(...places) + margin];
}

/**
 * @param {Node} from
 * @param {Node} to
 * @param {string} kind
 */
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

/**
 * @param {number} x
 * @param {number} y
 * @param {string} said
 * @param {string} kind
 */
function text(x, y, said, kind) {
  return shape("text", { x: x.toFixed(1), y: y.toFixed(1), class: kind }, said);
}
