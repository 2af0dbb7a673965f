/**
 * `layout`: where the hubs and Zeeks of a mesh are drawn: the hub that is asked in the middle, all others on rings around
 * it, by how many links away they are.
 *
 * ```
 * rows of $hub/mesh/graph ─▶ nodes, edges ─▶ rings ─▶ places in a square from -1 to 1
 * ```
 *
 * Pure functions. Invariant: the same mesh has the same picture, in whatever order it is told: whoever stands on a ring is
 * ordered by where the one before him stands, then by id. Cost: that of a walk over all links.
 */

/**
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
 * @param {any[]} hubs As `$hub/mesh/graph` tells them.
 * @returns {{nodes: Node[], edges: Edge[]}}
 */
export function layout(hubs) {
  const nodes = new Map();
  const edges = new Map();
  const kindOf = (hub) => (hub.own ? "own" : hub.lost === null ? "hub" : "lost");
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

function join(edges, from, to, kind) {
  const [one, other] = from < to ? [from, to] : [to, from];
  edges.set(`${one} ${other}`, { one, other, kind });
}

function place(nodes, edges) {
  const rings = ringsOf(nodes, edges);
  const angles = new Map();
  rings.forEach((ring, depth) => {
    if (depth > 0) ring.sort((a, b) => angles.get(a.before) - angles.get(b.before) || (a.id < b.id ? -1 : 1));
    ring.forEach(({ id }, index) => {
      const angle = (2 * Math.PI * (index + (depth % 2) / 2)) / ring.length;
      const radius = depth / Math.max(1, rings.length - 1);
      angles.set(id, angle);
      Object.assign(nodes.get(id), { x: radius * Math.cos(angle), y: radius * Math.sin(angle) });
    });
  });
}

/** Return who is how many links away, each with the one before; whoever cannot be reached stands outside. */
function ringsOf(nodes, edges) {
  const near = new Map([...nodes.keys()].sort().map((id) => [id, []]));
  for (const { one, other } of edges) {
    near.get(one).push(other);
    near.get(other).push(one);
  }
  const own = [...nodes.values()].find(({ kind }) => kind === "own");
  const seen = new Set();
  const rings = [];
  let ring = own === undefined ? [] : [{ id: own.id, before: own.id }];
  while (ring.length > 0) {
    for (const { id } of ring) seen.add(id);
    rings.push(ring);
    const next = new Map();
    for (const { id } of ring) {
      for (const other of near.get(id).sort()) if (!seen.has(other) && !next.has(other)) next.set(other, { id: other, before: id });
    }
    ring = [...next.values()];
  }
  const others = [...near.keys()].filter((id) => !seen.has(id));
  if (others.length > 0) rings.push(others.map((id) => ({ id, before: own?.id ?? id })));
  return rings;
}
