/**
 * The picture of a mesh: hubs, Zeeks and links, with what this hub's links carry, and the way of a topic.
 *
 * Owner of the state: nobody; it is made anew with each look that has changed. A screen reader is told to read the table.
 */

import { shape } from "../../parts/element.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";
import { layout } from "./layout.js";

/** More hubs and Zeeks than this are no picture any more. */
export const PICTURED = 60;

/** Of the square that is drawn in, and of what stands in it. */
const HALF = 250;
const MARGIN_X = 90;
const MARGIN_Y = 34;
const RADIUS = { own: 12, hub: 9, lost: 9, zeek: 6 };

/** A longer name is cut, characters. */
const NAME = 24;

/** Return how many there are to be drawn. */
export function pictured(hubs) {
  return hubs.length + new Set(hubs.flatMap(({ zeeks }) => Object.keys(zeeks))).size;
}

/**
 * @param {any[]} hubs As `$hub/mesh/graph` tells them.
 * @param {Map<string, string>} rates By the id of a hub that is linked with this one: what its link carries.
 * @param {Set<string>} way Links of a way, as `before id`.
 */
export function picture(hubs, rates, way) {
  const { nodes, edges } = layout(hubs);
  const at = new Map(nodes.map((node) => [node.id, { ...node, x: HALF * node.x, y: HALF * 0.6 * node.y }]));
  const own = nodes.find(({ kind }) => kind === "own")?.id;
  const lines = edges.map(({ one, other, kind }) => {
    const isWay = way.has(`${one} ${other}`) || way.has(`${other} ${one}`);
    return line(at.get(one), at.get(other), isWay ? `${kind} way` : kind);
  });
  const labels = edges.flatMap(({ one, other }) => {
    const far = one === own ? other : other === own ? one : null;
    const said = far === null ? undefined : rates.get(far);
    return said === undefined ? [] : [text((at.get(one).x + at.get(other).x) / 2, (at.get(one).y + at.get(other).y) / 2 - 5, said, "rate")];
  });
  const width = 2 * (HALF + MARGIN_X);
  const height = 2 * (HALF * 0.6 + MARGIN_Y);
  return shape(
    "svg", { viewBox: `${-width / 2} ${-height / 2} ${width} ${height}`, class: "mesh-picture", role: "img", "aria-label": words.mesh.picture(hubs.length) },
    ...lines, ...[...at.values()].map(disc), ...labels,
  );
}

function line(from, to, kind) {
  return shape("line", { x1: from.x.toFixed(1), y1: from.y.toFixed(1), x2: to.x.toFixed(1), y2: to.y.toFixed(1), class: kind });
}

function disc({ id, name, kind, x, y }) {
  const called = visible(name || id.slice(0, 8));
  const shown = called.length > NAME ? `${called.slice(0, NAME)}…` : called;
  const title = shape("title", {}, `${called} ${id}`);
  const circle = shape("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: RADIUS[kind] });
  return shape("g", { class: `node-${kind}` }, title, circle, text(x, y + RADIUS[kind] + 14, shown, "name"));
}

function text(x, y, said, kind) {
  return shape("text", { x: x.toFixed(1), y: y.toFixed(1), class: kind }, said);
}
