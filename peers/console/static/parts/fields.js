/**
 * `Fields`: which fields the values of a topic have, of which kinds, and between which numbers: as far as they were seen.
 *
 * ```
 * {"a": {"b": 1}, "c": [2, 3]}   ──▶   a.b  integer 1 … 1      c[]  integer 2 … 3
 * ```
 *
 * Owner of the state: `Fields`. Bounded: at most `FIELDS` paths, as deep as `DEPTH`, and of a value at most `NODES` parts
 * are looked at; what is beyond is counted in `leftOut`. No recursion: a value may be nested as deep as it likes.
 */

import { kindOf } from "./kinds.js";

/**
 * @import { Kind } from "./kinds.js"
 *
 * @typedef {object} Field
 * @property {string} path
 * @property {Kind[]} kinds
 * @property {number} part In how many of the values it is, 0 to 1 and more.
 * @property {number} [least]
 * @property {number} [most]
 * @property {number} [last]
 *
 * @typedef {object} Seen
 * @property {Set<Kind>} kinds
 * @property {number} count
 * @property {number | undefined} least
 * @property {number | undefined} most
 * @property {number | undefined} last
 */

export const FIELDS = 200;
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

  /**
   * Fields by path.
   *
   * @returns {Field[]}
   */
  list() {
    const rows = [...this.#fields].map(([path, { kinds, count, least, most, last }]) => (
      { path, kinds: [...kinds].sort(), part: count / this.values, least, most, last }
    ));
    return rows.sort((one, other) => (one.path < other.path ? -1 : 1));
  }

  /**
   * @param {string} path
   * @param {Kind} kind
   * @param {unknown} part
   */
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

/**
 * @param {string} path
 * @param {string} name
 */
function joined(path, name) {
  const shown = name.slice(0, NAME_CHARACTERS);
  return path === "" ? shown : `${path}.${shown}`;
}
