/**
 * `layout`: where the hubs and Zeeks of a mesh are drawn: the hub that is asked in the middle, all others on rings around
 * it, by how many links away they are.
 *
 * ```
 * rows of $hub/mesh/graph ─▶ nodes, edges ─▶ rings ─▶ places in a square from -1 to 1
 * ```
 *
 * Each stands beyond the one before him on the way from the middle, within a sector of his own that is as wide as there is
 * much beyond him, so that links of the shortest ways cross nobody.
 *
 * Pure functions. Invariant: the same mesh has the same picture, in whatever order it is told: whoever stands beyond the
 * same one is ordered by id. Cost: that of a walk over all links.
 */

/** The widest sector of anybody but the middle: what is beyond him stays on his side. */
const WIDEST = Math.PI;

/**
 * @import { Hub } from "../../feeds/services.d.ts"
 *
 * @typedef {object} Node
 * @property {string} id
 * @property {string} name
 * @property {"own" | "hub" | "lost" | "zeek"} kind
 * @property {number} x
 * @property {number} y
 *
 * @typedef {object} Edge
 * @property {string} one Id, the lower of the two.
 * @property {string} other
 * @property {"link" | "gateway" | "zeek"} kind
 */

/**
 * @param {Hub[]} hubs As `$hub/mesh/graph` tells them.
 * @returns {{nodes: Node[], edges: Edge[]}}
 */
export function layout(hubs) {
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

/**
 * @param {Map<string, Edge>} edges
 * @param {string} from
 * @param {string} to
 * @param {Edge["kind"]} kind
 */
function join(edges, from, to, kind) {
  const [one, other] = from < to ? [from, to] : [to, from];
  edges.set(`${one} ${other}`, { one, other, kind });
}

/**
 * @param {Map<string, Node>} nodes
 * @param {Edge[]} edges
 */
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

/**
 * Return who is how many links away, each with the one before; whoever cannot be reached stands outside.
 *
 * @param {Map<string, Node>} nodes
 * @param {Edge[]} edges
 */
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
