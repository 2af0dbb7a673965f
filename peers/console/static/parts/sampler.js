/**
 * `Sampler`: some of the messages, as many as can be read, and the count of all; fields and topics of them.
 *
 * ```
 * 50,000/s ── add ──▶ the newest since the last time ── take ──▶ rows: BURST at once, ROWS_PER_S in the long run
 *                                                          └──▶ `received`, `matched`: all are counted
 * ```
 *
 * The newest are taken, in one piece: so one sees which message follows which. Bounded: `BURST` messages until the next
 * `take`, `ROW_CHARACTERS` a row. No clock: times are arguments, milliseconds.
 */

/**
 * @typedef {{topic: string, value: any, at: number, offset?: number, labels?: readonly string[], sender?: string,
 *   to?: string}} Sampled
 *   A message, and when it came, or was recorded. `at`: Milliseconds since 1970. `offset`: In the journal.
 * @typedef {{topic: string, text: string, whole: boolean, characters: number, at: number, offset?: number,
 *   labels?: readonly string[], sender?: string, to?: string}} Row
 *   The row of a message. `text`: Of its value, as JSON; cut if it is not `whole`. `characters`: Of the whole text.
 */

const BURST = 1_000;
const ROWS_PER_S = 1_000;
export const ROW_CHARACTERS = 1024 * 1024;
const CHARACTERS_PER_S = 8 * 1024 * 1024;

export class Sampler {
  /** Messages that came. */
  received = 0;
  /** Of these, messages that match the search. */
  matched = 0;
  /** Of these, such as were taken. */
  taken = 0;
  held = false;
  #search = "";
  /** @type {Sampled[]} A ring of the newest. */
  #waiting = [];
  #next = 0;
  #rows = BURST;
  #characters = CHARACTERS_PER_S;
  #filledAt = 0;

  /** Take only what has this text in its topic or value from now on, in any case. @param {string} text */
  search(text) {
    this.#search = text.toLowerCase();
  }

  /** @param {Sampled} message */
  add(message) {
    this.received += 1;
    if (this.#search && !isFound(message, this.#search)) return;
    this.matched += 1;
    if (this.held) return;
    this.#waiting[this.#next] = message;
    this.#next = (this.#next + 1) % BURST;
  }

  /** The newest of what has come since the last time, oldest first. @param {number} now */
  take(now) {
    const passedS = Math.max(0, now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#rows = Math.min(BURST, this.#rows + passedS * ROWS_PER_S);
    this.#characters = Math.min(CHARACTERS_PER_S, this.#characters + passedS * CHARACTERS_PER_S);
    if (this.#waiting.length === 0) return [];
    const inOrder = [...this.#waiting.slice(this.#next), ...this.#waiting.slice(0, this.#next)];
    this.#waiting = [];
    this.#next = 0;
    const rows = [];
    for (const message of inOrder.reverse()) {
      if (this.#rows < 1 || this.#characters <= 0) break;
      const row = rowOf(message);
      rows.push(row);
      this.#rows -= 1;
      this.#characters -= row.text.length;
    }
    this.taken += rows.length;
    return rows.reverse();
  }
}

// Return the row of a message, which can be posted to another thread: a cut text is not `whole`.
/** @param {Sampled} sampled @returns {Row} */
export function rowOf({ value, at, ...others }) {
  const text = JSON.stringify(value);
  const whole = text.length <= ROW_CHARACTERS;
  // A slice may keep the whole text in memory: a copy does not.
  const kept = whole ? text : new TextDecoder().decode(new TextEncoder().encode(text.slice(0, ROW_CHARACTERS)));
  return { ...others, text: kept, whole, characters: text.length, at };
}

// Whether a message has a text, in lower case, in its topic or its value.
/** @param {{topic: string, value: unknown}} message @param {string} text */
export function isFound({ topic, value }, text) {
  return topic.toLowerCase().includes(text) || JSON.stringify(value).toLowerCase().includes(text);
}

// `Fields`: which fields the values of a topic have, of which kinds, and between which numbers: as far as they were seen.

/**
 * @typedef {{path: string, kinds: Kind[], part: number, least?: number, most?: number, last?: number}} Field
 *   `part`: In how many of the values it is, 0 to 1 and more.
 * @typedef {{kinds: Set<Kind>, count: number, least: number | undefined, most: number | undefined,
 *   last: number | undefined}} Seen
 */

const FIELDS = 200;
const DEPTH = 8;
const NODES = 2_000;

/** Text of a name in a path, characters. */
const NAME_CHARACTERS = 64;

export class Fields {
  /** How many values were looked at. */
  values = 0;
  /** How many parts of values were not. */
  leftOut = 0;
  /** @type {Map<string, Seen>} By path. */
  #fields = new Map();

  /** @param {any} value */
  add(value) {
    this.values += 1;
    /** @type {[path: string, part: any, depth: number][]} */
    const waiting = [["", value, 0]];
    for (let looked = 0, next = waiting.pop(); next !== undefined; looked += 1, next = waiting.pop()) {
      if (looked >= NODES) {
        this.leftOut += waiting.length + 1;
        return;
      }
      const [path, part, depth] = next;
      const kind = kindOf(part);
      if (kind !== "list" && kind !== "map") {
        this.#note(path, kind, part);
      } else if (depth === DEPTH) {
        this.leftOut += 1;
        this.#note(path, kind, undefined);
      } else if (kind === "list") {
        for (const each of part.slice(0, NODES)) waiting.push([`${path}[]`, each, depth + 1]);
        if (part.length === 0) this.#note(path, kind, undefined);
      } else {
        const names = Object.keys(part);
        for (const name of names.slice(0, NODES)) waiting.push([joined(path, name), part[name], depth + 1]);
        if (names.length === 0) this.#note(path, kind, undefined);
      }
    }
  }

  /** Fields by path. @returns {Field[]} */
  list() {
    const rows = [...this.#fields].map(([path, { kinds, count, least, most, last }]) => (
      { path, kinds: [...kinds].sort(), part: count / this.values, least, most, last }
    ));
    return rows.sort((one, other) => (one.path < other.path ? -1 : 1));
  }

  /** @param {string} path @param {Kind} kind @param {unknown} part */
  #note(path, kind, part) {
    let field = this.#fields.get(path);
    if (field === undefined) {
      if (this.#fields.size >= FIELDS) {
        this.leftOut += 1;
        return;
      }
      field = { kinds: new Set(), count: 0, least: undefined, most: undefined, last: undefined };
      this.#fields.set(path, field);
    }
    field.kinds.add(kind);
    field.count += 1;
    if (typeof part !== "number") return;
    field.last = part;
    field.least = Math.min(field.least ?? part, part);
    field.most = Math.max(field.most ?? part, part);
  }
}

/** @param {string} path @param {string} name */
function joined(path, name) {
  const shown = name.slice(0, NAME_CHARACTERS);
  return path === "" ? shown : `${path}.${shown}`;
}

// `kindOf`: what kind of thing a value is, for people: as JSON has it, and what texts and numbers are often used for.

/** @typedef {"null" | "boolean" | "integer" | "number" | "text" | "time" | "address" | "list" | "map"} Kind */

const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$/;
const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|(?=[0-9a-f:.]*:[0-9a-f:.]*:)[0-9a-f:.]{2,45})(\/\d{1,3})?$/i;

/** The longest text that is looked at for what it is used for, characters. */
const LOOKED_AT = 64;

/**
 * @returns {"null" | "boolean" | "integer" | "number" | "text" | "time" | "address" | "list" | "map"}
 * @param {unknown} value
 */
export function kindOf(value) {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "list";
  switch (typeof value) {
    case "boolean": return "boolean";
    case "number": return Number.isInteger(value) ? "integer" : "number";
    case "string": return textKind(value);
    default: return "map";
  }
}

/** @param {string} text */
function textKind(text) {
  if (text.length > LOOKED_AT) return "text";
  if (TIME.test(text)) return "time";
  return ADDRESS.test(text) ? "address" : "text";
}

// `TopicCounts`: which topics are busiest, of those that came here.

const KNOWN = 10_000;
const SHOWN = 20;

/**
 * @typedef {{topic: string, count: number, before: number}} Counted
 *   `before`: The count at the last `top`.
 * @typedef {{topic: string, count: number, perSecond: number, share: number}} Busy
 *   `share`: Of all.
 * @typedef {{shown: Busy[], topics: number, otherTopics: number, otherMessages: number}} Top
 *   `topics`: How many there are, those forgotten as often as that happened. `otherMessages`: Of these.
 */

export class TopicCounts {
  /** @type {Map<string, Counted>} By topic. */
  #counts = new Map();
  #forgottenTopics = 0;
  #forgottenMessages = 0;
  #toldAt;

  /** @param {number} now */
  constructor(now) {
    this.#toldAt = now;
  }

  /** @param {string} topic */
  add(topic) {
    const known = this.#counts.get(topic);
    if (known) {
      known.count += 1;
      return;
    }
    if (this.#counts.size >= KNOWN) this.#forget();
    this.#counts.set(topic, { topic, count: 1, before: 0 });
  }

  // The busiest with `count`, `perSecond` and `share` of all; how many `topics` there are, those forgotten as often
  // as that happened; and how many messages the `otherTopics` have.
  /** @param {number} now @returns {Top} */
  top(now) {
    const seconds = Math.max(0.001, (now - this.#toldAt) / 1000);
    this.#toldAt = now;
    const sorted = this.#sorted();
    const total = sorted.reduce((sum, { count }) => sum + count, this.#forgottenMessages);
    const shown = sorted.slice(0, SHOWN).map(({ topic, count, before }) => (
      { topic, count, perSecond: (count - before) / seconds, share: count / total }
    ));
    for (const known of sorted) known.before = known.count;
    const others = sorted.slice(SHOWN);
    return {
      shown,
      topics: this.#counts.size + this.#forgottenTopics,
      otherTopics: others.length + this.#forgottenTopics,
      otherMessages: others.reduce((sum, { count }) => sum + count, this.#forgottenMessages),
    };
  }

  #sorted() {
    return [...this.#counts.values()].sort((one, other) => other.count - one.count);
  }

  #forget() {
    for (const { topic, count } of this.#sorted().slice(KNOWN / 2)) {
      this.#counts.delete(topic);
      this.#forgottenTopics += 1;
      this.#forgottenMessages += count;
    }
  }
}
