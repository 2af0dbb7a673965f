/**
 * The connections of the hub, as `$hub/who` tells them a page at a time, and what each does a second.
 *
 * ```
 * begin ─▶ take(page) ─▶ take(page) ─ ... ─▶ end: who was in no page has left
 * ```
 *
 * Owner of the state: `Connections`. Invariants: a row stays the same object for as long as its connection is there, so
 * that a table may keep it; rates are those between the last two looks at a row, and unknown before. Bounded by the hub's
 * limit of connections. Not here: who asks, and when; what is shown.
 */

/** Fields that only grow, and what they are a second. */
const RATES = {
  published_messages: "inPerS",
  delivered_messages: "outPerS",
  delivered_bytes: "outBytesPerS",
  received_bytes: "inBytesPerS",
  dropped_messages: "droppedPerS",
};

export class Connections {
  #rows = new Map(); // id → row
  #seen = new Set();
  #slow = new Set();

  /** All rows that are known. */
  get rows() {
    return [...this.#rows.values()];
  }

  get size() {
    return this.#rows.size;
  }

  find(id) {
    return this.#rows.get(id);
  }

  /** A look begins. */
  begin() {
    this.#seen.clear();
  }

  /**
   * @param {object[]} page As the hub tells it.
   * @param {number} at When it came, seconds of any clock.
   */
  take(page, at) {
    for (const told of page) {
      this.#seen.add(told.id);
      const row = this.#rows.get(told.id);
      if (row === undefined) this.#rows.set(told.id, fresh(told, at));
      else update(row, told, at);
    }
  }

  /** The look is over: those that it has not seen have left. */
  end() {
    for (const id of this.#rows.keys()) if (!this.#seen.has(id)) this.#rows.delete(id);
  }

  /** Say which are slow, by what the hub says. */
  mark(slowIds) {
    this.#slow = new Set(slowIds);
  }

  isSlow(row) {
    return this.#slow.has(row.id);
  }

  /** Another hub has other connections. */
  forget() {
    this.#rows.clear();
    this.#seen.clear();
  }
}

function fresh(told, at) {
  const row = { ...told, at };
  for (const rate of Object.values(RATES)) row[rate] = null;
  return row;
}

function update(row, told, at) {
  const seconds = at - row.at;
  if (seconds <= 0) return;
  const rates = Object.entries(RATES).map(([field, rate]) => [rate, (told[field] - row[field]) / seconds]);
  Object.assign(row, told, Object.fromEntries(rates), { at });
}

/** How full the queue of a connection is, 0 to 1, by messages or bytes, whichever is fuller. */
export function fullness({ queued_messages: messages, queued_bytes: size, queue }) {
  return Math.min(1, Math.max(messages / queue.messages, size / queue.bytes));
}

/** How a row is called by people: its name, or its address. */
export function labelOf(row) {
  return row.name || row.address;
}

/** Whether a row is among what is looked for: all words of the search are in something that is shown of it. */
export function isWanted(row, { search, role, user }) {
  if (role && row.role !== role) return false;
  if (user && row.user !== user) return false;
  if (!search) return true;
  const text = [row.id, row.name, row.address, row.user, row.protocol, row.overflow, row.software, ...row.sample].join("\n").toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
