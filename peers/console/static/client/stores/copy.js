/**
 * The entries of a store, made of pages and changes. No I/O, no clock: times are arguments.
 *
 * Bounded: `HELD_CHANGES` changes wait for one before them.
 */

/**
 * @typedef {{value: string, version: number}} Held Of an entry, its value as it came.
 *
 * @typedef {Map<string, Held>} Entries By key, as it came: equal keys have equal texts.
 *
 * @typedef {[key: string, value: string, version: number, expires?: number | null]} Row Of a page.
 *
 * @typedef {object} Change
 * @property {number} number
 * @property {number} kind Of `CHANGE_KINDS`.
 * @property {string | null} key Null where all entries are gone.
 * @property {string | null} value
 * @property {string | null} old
 * @property {string | null} publisher
 * @property {boolean} present Whether it stands for an entry that was there before.
 * @property {boolean} partial Whether it makes a state of the store only with those behind it.
 * @property {boolean} isOther Whether it is of an entry that is not copied.
 *
 * @typedef {object} Loading A state that is being read.
 * @property {number} epoch
 * @property {number} number
 * @property {number | null} until
 * @property {Entries} entries
 */

/** Kinds of changes of a store, by their numbers. */
const PUT = 0;
export const ERASED = 1;
export const CLEARED = 3;
export const CHANGE_KINDS = Object.freeze(/** @type {const} */ (["put", "erase", "expire", "clear"]));

/** What a copy of a store misses. */
export const NOTHING = "nothing";
const CHANGES = "changes";
export const SNAPSHOT = "snapshot";

/** Most changes that wait for one before them, and that a watch holds before the store is not read on. */
export const HELD_CHANGES = 65_536;

/**
 * A copy of a store, made of its entries as they were read, page by page, and of the changes behind the beginning of
 * that. Each change is applied once, in the order of their numbers; what comes before its turn is held. The same as
 * hub/stores/replica.py.
 */
export class Copy {
  /** @type {Entries} */
  entries = new Map();
  isReady = false;
  freshMs = -Infinity; // the master's state was this one at that time
  #epoch = 0;
  #number = 0;
  /** @type {Loading | null} */
  #loading = null;
  #mustLoad = true;
  #heardEpoch = 0; // the highest; in it, the highest number, and when that was heard
  #last = 0;
  /** @type {number | null} */
  #heardMs = null;
  /** @type {Map<number, Change>} Those that wait for one before them, by number. */
  #held = new Map();

  get number() {
    return this.#loading?.number ?? this.#number;
  }

  get needs() {
    const loading = this.#loading;
    if (loading === null) return this.#mustLoad ? SNAPSHOT : this.#number < this.#last ? CHANGES : NOTHING;
    return loading.until !== null && loading.number < Math.max(loading.until, this.#last) ? CHANGES : NOTHING;
  }

  /**
   * @param {number} epoch
   * @param {number} number
   */
  begin(epoch, number) {
    this.#turnTo(epoch);
    this.#loading = null;
    this.#mustLoad = epoch < this.#heardEpoch; // it is of a life that is over
    if (this.#mustLoad) return;
    this.#loading = { epoch, number, until: null, entries: new Map() };
    for (const each of [...this.#held.keys()]) if (each <= number) this.#held.delete(each);
  }

  /** @param {Row[]} rows */
  take(rows) {
    for (const [key, value, version] of rows) this.#loading?.entries.set(key, { value, version });
  }

  /**
   * There are no more pages. Returns what has changed, as `hear`.
   *
   * @param {number} number
   */
  finish(number) {
    if (this.#loading === null) return [];
    this.#loading.until = number;
    return this.#goOn();
  }

  forgotten() {
    this.#loading = null;
    this.#mustLoad = true;
  }

  /**
   * Returns the changes that were applied, in order.
   *
   * @param {number} epoch
   * @param {Change[]} changes
   * @returns {Change[]}
   */
  hear(epoch, changes) {
    this.#turnTo(epoch);
    if (epoch < this.#heardEpoch) return [];
    const number = epoch === (this.#loading?.epoch ?? this.#epoch) ? this.number : 0;
    for (const change of changes) {
      if (change.number <= number) continue;
      this.#last = Math.max(this.#last, change.number);
      if (change.number - number <= HELD_CHANGES || (this.#mustLoad && this.#held.size < HELD_CHANGES)) {
        this.#held.set(change.number, change);
      }
    }
    return this.#goOn();
  }

  /**
   * The master's last change had this number, at that time or later.
   *
   * @param {number} epoch
   * @param {number} number
   * @param {number} atMs
   */
  heard(epoch, number, atMs) {
    this.#turnTo(epoch);
    if (epoch !== this.#heardEpoch || number < this.#last) return;
    this.#last = number;
    this.#heardMs = atMs;
    this.#refresh();
  }

  /** @param {number} epoch */
  #turnTo(epoch) {
    if (epoch <= this.#heardEpoch) return;
    this.#heardEpoch = epoch;
    this.#last = 0;
    this.#heardMs = null;
    this.#held.clear();
    this.forgotten();
  }

  #refresh() {
    if (this.needs === NOTHING && this.#loading === null && this.#heardMs !== null) this.freshMs = this.#heardMs;
  }

  #goOn() {
    const loading = this.#loading;
    if (loading === null) {
      if (this.#mustLoad) return [];
      const applied = this.#apply(this.entries, this.#number);
      this.#number += applied.length;
      this.#refresh();
      return applied;
    }
    if (loading.until === null) return [];
    loading.number += this.#apply(loading.entries, loading.number).length;
    if (loading.number < loading.until) return [];
    const before = this.entries;
    const present = !this.isReady;
    this.entries = loading.entries;
    this.#epoch = loading.epoch;
    this.#number = loading.number;
    this.#last = Math.max(this.#last, this.#number);
    this.isReady = true;
    this.#loading = null;
    this.#refresh();
    return differences(before, this.entries, this.#number, present);
  }

  /**
   * @param {Entries} entries
   * @param {number} number
   */
  #apply(entries, number) {
    const applied = [];
    let next = number + 1;
    for (let change = this.#held.get(next); change !== undefined; change = this.#held.get(next)) {
      applied.push(applyChange(entries, change));
      this.#held.delete(next);
      next += 1;
    }
    return applied;
  }
}

/**
 * Pages may have brought newer versions than those that a change makes. Returns it with the old value of here.
 *
 * @param {Entries} entries
 * @param {Change} change
 * @returns {Change}
 */
function applyChange(entries, change) {
  const { number, kind, key, value } = change;
  if (kind === CLEARED || key === null) {
    for (const [each, { version }] of entries) if (version < number) entries.delete(each);
    return change;
  }
  const entry = entries.get(key);
  if (entry === undefined || entry.version < number) {
    if (value === null) entries.delete(key);
    else entries.set(key, { value, version: number });
  }
  return entry === undefined ? change : { ...change, old: entry.value };
}

/**
 * What turns one state into another, as changes whose numbers never go down: puts have the versions of their entries,
 * erases come last, with the number of the state.
 *
 * @param {Entries} before
 * @param {Entries} behind
 * @param {number} number
 * @param {boolean} present
 * @returns {Change[]}
 */
function differences(before, behind, number, present) {
  const made = { old: null, publisher: null, present, partial: false, isOther: false };
  const gone = [...before].filter(([key]) => !behind.has(key)).map(([key, { value }]) => (
    { ...made, number, kind: ERASED, key, value: null, old: value }));
  const fresh = [...behind].filter(([key, { value, version }]) => {
    const old = before.get(key);
    return old === undefined || old.version !== version || old.value !== value;
  }).map(([key, { value, version }]) => (
    { ...made, number: version, kind: PUT, key, value, old: before.get(key)?.value ?? null }));
  const told = [...fresh.sort((one, other) => one.number - other.number), ...gone];
  return told.map((change, place) => ({ ...change, partial: place < told.length - 1 }));
}
