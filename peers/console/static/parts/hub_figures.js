/**
 * What the hub as a whole does, from two looks at its handlers: `$hub/statistics`, once a second while somebody listens.
 *
 * Owner of the state: `HubFigures`. A hub with many handlers spreads one look over several messages; a look that lacks a
 * part is left out. Counters only grow while a handler lives and ids are not used again, so one that was not there
 * before began at nothing. Bounded by the hub's limit of connections. Not here: who subscribes, and what is drawn.
 */

export const STATISTICS_TOPIC = "$hub/statistics";

export class HubFigures {
  /** How many clients are connected, this page among them; null until the hub has told. */
  clients = null;
  /** Messages a second that all clients and peers publish; null until there were two looks. */
  publishedPerS = null;
  #look = null; // {hub, at, handlers: published messages by id}
  #parts = null; // a look that is not complete yet

  /** Take the value of one message. */
  feed({ hub, at_s: at, handlers, first, some }) {
    if (first === 0) this.#parts = { hub, at, clients: 0, handlers: new Map() };
    const parts = this.#parts;
    if (!parts || parts.hub !== hub || parts.at !== at || parts.handlers.size !== first) return;
    for (const { id, role, published_messages: published } of some) {
      parts.handlers.set(id, published);
      if (role === "client") parts.clients += 1;
    }
    if (parts.handlers.size >= handlers) this.#complete(parts);
  }

  /** The connection is lost: what was told last holds no longer. */
  forget() {
    this.clients = this.publishedPerS = this.#look = this.#parts = null;
  }

  #complete(look) {
    const before = this.#look;
    this.#parts = null;
    this.#look = look;
    this.clients = look.clients;
    this.publishedPerS = null;
    if (!before || before.hub !== look.hub || before.at >= look.at) return;
    let published = 0;
    for (const [id, count] of look.handlers) published += count - (before.handlers.get(id) ?? 0);
    this.publishedPerS = published / (look.at - before.at);
  }
}
