/**
 * The connections of the hub, as `$hub/who` lists them a page at a time, and why a connection is slow.
 *
 * ```
 * begin ─▶ take(page) ─▶ take(page) ─ ... ─▶ end: connections that were in no page have left
 * ```
 *
 * A row stays the same object for as long as its connection is there, so that a table may keep it.
 */

import { short, visible, whole } from "../parts/figures.js";
import { words } from "../words.js";

/** @import { Connection } from "./services.d.ts" */

/**
 * @typedef {object} Kept Of the page.
 * @property {string | number} sortedBy
 * @typedef {Connection & Kept} Row
 */

export class Connections {
  /** @type {Map<number, Row>} By id. */
  #rows = new Map();
  /** @type {Set<number>} */ #seen = new Set();
  /** @type {Set<number>} */ #slow = new Set();

  /** All rows that are known. */
  get rows() { return [...this.#rows.values()]; }

  get size() { return this.#rows.size; }

  /** A look begins. */
  begin() {
    this.#seen.clear();
  }

  /** @param {Connection[]} page Of `$hub/who`. */
  take(page) {
    for (const told of page) {
      this.#seen.add(told.id);
      this.#rows.set(told.id, Object.assign(this.#rows.get(told.id) ?? { sortedBy: "" }, told));
    }
  }

  /** The look is over: those that it has not seen have left. */
  end() {
    for (const id of this.#rows.keys()) if (!this.#seen.has(id)) this.#rows.delete(id);
  }

  /** Set the slow connections. @param {number[]} slowIds */
  mark(slowIds) {
    this.#slow = new Set(slowIds);
  }

  /** @param {Row} row */
  isSlow(row) {
    return this.#slow.has(row.id);
  }

  /** Another hub has other connections. */
  forget() {
    this.#rows.clear();
    this.#seen.clear();
  }
}

/** How full the queue of a connection is, 0 to 1, by messages or bytes, whichever is fuller. @param {Connection} row */
export function fullness({ queued_messages: messages, queued_bytes: size, queue }) {
  return Math.min(1, Math.max(messages / queue.messages, size / queue.bytes));
}

/** How a row is called by people: its name, or its address. @param {Connection} row */
export function labelOf(row) {
  return row.name || row.address;
}

/** @type {Record<string, (row: Row) => string | number>} By what rows are sorted, by the key of a column. */
export const ORDERS = {
  name: (row) => labelOf(row).toLowerCase(),
  user: (row) => row.user,
  role: (row) => row.role,
  in: (row) => row.rates?.in_messages ?? -1,
  out: (row) => row.rates?.out_messages ?? -1,
  bytes: (row) => row.rates?.out_bytes ?? -1,
  queue: (row) => fullness(row),
  dropped: (row) => row.dropped_messages,
  overflow: (row) => row.overflow,
  prefixes: (row) => row.prefixes,
  address: (row) => row.address,
  protocol: (row) => row.protocol,
  since: (row) => row.since,
};

// Sort rows by a column (`name`), the other way round where a `-` stands before it; those that are alike by number.
// The sort key of a row is computed once, and not with each comparison.
/** @param {Row[]} rows @param {string} by */
export function sort(rows, by) {
  const isDescending = by.startsWith("-");
  const value = ORDERS[isDescending ? by.slice(1) : by];
  const [before, behind] = isDescending ? [1, -1] : [-1, 1];
  for (const row of rows) row.sortedBy = value(row);
  return rows.sort((one, other) => {
    if (one.sortedBy < other.sortedBy) return before;
    if (one.sortedBy > other.sortedBy) return behind;
    return one.id < other.id ? before : behind;
  });
}

// Return the predicate of a filter: all words of a search are in fields of the row that are shown.
/** @param {{search: string, role: string, user: string}} wanted @returns {(row: Row) => boolean} */
export function wanted({ search, role, user }) {
  const words = search.toLowerCase().split(/\s+/);
  return (row) => (!role || row.role === role) && (!user || row.user === user) && (!search || has(row, words));
}

/** @param {Row} row @param {string[]} words */
function has(row, words) {
  const text = [row.id, row.name, row.address, row.user, row.protocol, row.overflow, row.software, ...row.sample].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

// Why a connection is slow, in a sentence: how much comes for it, how much of that it takes, and what becomes of the rest.

/** A queue that is so full is called full: what is dropped makes room for a moment. */
const FULL = 0.95;

/** Prefixes that are named. */
const NAMED = 3;

// Return why it is slow, as far as that is seen; empty for one that has nothing waiting, and loses nothing.
/** @param {Connection} row */
export function whySlow(row) {
  const { rates } = row;
  const dropped = rates?.dropped_messages ?? 0;
  if (row.queued_messages === 0 && dropped === 0) return "";
  const { slowness: said } = words;
  const under = placesOf(row);
  const takes = rates === null ? said.measuring(under) : said.takes(short(rates.out_messages), short(rates.offered_messages), under);
  const queued = whole(row.queued_messages);
  if (fullness(row) >= FULL) return said.full(takes, queued, said.overflow[row.overflow] ?? row.overflow);
  return dropped > 0 ? said.loses(takes, short(dropped), queued) : said.waits(takes, queued, whole(row.queue.messages));
}

/** Under what messages come for a connection: its first prefixes, and how many more it has. @param {Connection} row */
function placesOf({ sample, prefixes }) {
  const { slowness: said, connection } = words;
  const named = sample.slice(0, NAMED).map((prefix) => visible(prefix) || connection.everything).join(", ");
  const more = prefixes - Math.min(NAMED, sample.length);
  return more > 0 && named ? said.andMore(named, whole(more)) : named || said.noPrefix;
}
