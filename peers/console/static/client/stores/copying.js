/** A copy of a store, kept equal to its master, over a client that may lose its connection. */

import { codeOf, HubError, NO_RESPONDER, NOT_ALLOWED, PASSING, statusOf } from "../errors.js";
import { received } from "../values/packing.js";
import { deferred, handled, now } from "../waiting.js";

/** @import { Line } from "./store.js" */

/**
 * @typedef {Line & {read: (asked: unknown[]) => Promise<any>}} CopyLine
 * @typedef {[number: number, kind: number, key: string | null, value: string | null, expires: unknown, publisher: string | null]} ChangeRow
 * @typedef {(told: (changes: Change[]) => void, ended: (error: Error) => void) => Copying} MakeCopying
 */

/** How often a copy asks how far the store is, and how long it waits after a failure: twice as long after each. */
const CHECK_MS = 1_000;
const COPY_RETRY_MS = 200;
const COPY_RETRY_MAX_MS = 5_000;

/** So many refusals in a row, and a copy ends with the last one. */
const REFUSALS = 5;

/**
 * Keeps a copy of a store equal to its master, over a client that may lose its connection.
 *
 * It subscribes first and reads the entries then, so that nothing falls in between. What the copy misses is asked for at
 * once; once a second, and over each new connection, the master is asked how far it is.
 */
export class Copying {
  copy = new Copy();
  #line;
  #prefix;
  #told;
  #finished;
  #subscription;
  #confirmed = handled(deferred());
  /** @type {import("../waiting.js").Deferred<void> | null} Of who has enough for now. */
  #room = null;
  /** @type {(() => void) | null} Ends a pause. */
  #wake = null;
  #isWanted = false; // something is to be asked for
  /** @type {Set<{version: number, settle: (error: Error | null) => void}>} */ #waiters = new Set();
  #off;
  /** @type {Promise<void> | undefined} Settles as the hub sends no more changes. */
  #left;
  /** @type {Error | null} */ #error = null;

  /**
   * @param {CopyLine} line @param {string} topic @param {string} prefix @param {(changes: Change[]) => void} told
   * @param {(error: Error) => void} finished
   */
  constructor(line, topic, prefix, told, finished) {
    this.#line = line;
    this.#prefix = prefix;
    this.#told = told;
    this.#finished = finished;
    this.#subscription = line.subscribe(topic, ({ value: [epoch, rows] }) => this.#hear(epoch, rows), (error) => {
      this.#end(error ?? new HubError(1000, "the store is not copied any more"));
    });
    this.#off = [line.on("open", () => this.#want()), line.on("dropped", () => this.#want())];
    this.#run().catch((error) => this.#end(error));
  }

  get confirmed() { return this.#confirmed.promise; }

  pause() {
    this.#room ??= deferred();
  }

  resume() {
    if (this.#room === null) return;
    this.#room.resolve();
    this.#room = null;
    this.#want();
  }

  async close() {
    this.#end(new HubError(1000, "the store is not copied any more"));
    await this.#left;
  }

  /** @param {number} version @param {number} timeoutMs @returns {Promise<void>} */
  reach(version, timeoutMs) {
    if (this.copy.isReady && this.copy.number >= version) return Promise.resolve();
    if (this.#error) return Promise.reject(this.#error);
    /** @type {import("../waiting.js").Deferred<void>} */
    const done = deferred();
    const waiter = { version, settle: done.settle };
    const timer = setTimeout(() => {
      done.reject(new HubError(1013, `the copy is at ${this.copy.number}, and has not come to ${version} in time`));
    }, timeoutMs);
    this.#waiters.add(waiter);
    this.#want();
    return done.promise.finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
    });
  }

  /** @param {Error} error */
  #end(error) {
    if (this.#error) return;
    this.#error = error;
    for (const off of this.#off) off();
    this.#room?.resolve();
    this.#wake?.();
    this.#confirmed.reject(error);
    for (const { settle } of this.#waiters) settle(error);
    this.#left = this.#subscription.unsubscribe();
    this.#finished(error);
  }

  #want() {
    this.#isWanted = true;
    this.#wake?.();
  }

  /** @param {number} epoch @param {ChangeRow[]} rows */
  #hear(epoch, rows) {
    if (this.#room) return; // what is missing then is asked for later
    this.#tell(this.copy.hear(epoch, this.#changes(rows)));
    if (this.copy.needs !== NOTHING) this.#want();
  }

  /** Changes of entries that are not copied do nothing. @param {ChangeRow[]} rows @returns {Change[]} */
  #changes(rows) {
    return rows.map(([number, kind, key, value, , publisher]) => {
      const change = { number, kind, key, value, old: null, publisher, present: false, partial: false, isOther: false };
      if (kind === CLEARED || beginsWith(key, this.#prefix)) return change;
      return { ...change, kind: ERASED, value: null, isOther: true };
    });
  }

  /** @param {Change[]} changes */
  #tell(changes) {
    if (changes.length) this.#told(changes);
    for (const { version, settle } of this.#waiters) if (this.copy.isReady && this.copy.number >= version) settle(null);
  }

  async #run() {
    await this.#subscription.confirmed;
    let [failures, refusals] = [0, 0];
    while (!this.#error) {
      this.#isWanted = false;
      let waitMs = CHECK_MS;
      try {
        do {
          await this.#room?.promise;
          if (this.#error) return;
          await this.#fill();
        } while (this.copy.needs !== NOTHING || this.copy.freshMs === -Infinity);
        this.#confirmed.resolve();
        [failures, refusals] = [0, 0];
      } catch (error) {
        if (this.#isFinal(error)) throw error;
        refusals = isPassing(error) ? 0 : refusals + 1;
        if (refusals > REFUSALS) throw error;
        waitMs = Math.min(COPY_RETRY_MAX_MS, COPY_RETRY_MS * 2 ** failures);
        failures += 1;
      }
      if (!this.#isWanted || failures) await this.#pause(waitMs);
    }
  }

  /** @param {unknown} error */
  #isFinal(error) {
    if (this.#error || !(error instanceof HubError) || error.code === 1000) return true;
    return statusOf(error) === NOT_ALLOWED || (statusOf(error) === NO_RESPONDER && !this.copy.isReady);
  }

  /** @param {number} ms @returns {Promise<void>} */
  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Ask for what is missing, once; where nothing is, how far the master is. */
  async #fill() {
    const { copy } = this;
    if (copy.needs === SNAPSHOT) return this.#load();
    if (copy.needs === NOTHING) {
      const askedMs = now();
      const [epoch, number] = await this.#line.read(["state"]);
      return copy.heard(epoch, number, askedMs);
    }
    const answer = await this.#line.read(["since", copy.number]);
    if (answer === null) return copy.forgotten();
    return this.#tell(copy.hear(answer[0], this.#changes(answer[2])));
  }

  async #load() {
    try {
      let [epoch, reading, first, number, rows] = await this.#line.read(["rows", this.#prefix, true]);
      this.copy.begin(epoch, first);
      this.copy.take(rows);
      while (reading) {
        [, reading, , number, rows] = await this.#line.read(["more", reading]);
        this.copy.take(rows);
      }
      this.#tell(this.copy.finish(number));
    } catch (error) {
      this.copy.forgotten();
      throw error;
    }
  }
}

// Whether a key, as it travels, is a string that begins like this.
/** @param {string | null} key @param {string} prefix */
function beginsWith(key, prefix) {
  if (prefix === "") return true;
  try {
    const found = received(key);
    return typeof found === "string" && found.startsWith(prefix);
  } catch {
    return false; // none that is understood here
  }
}

/** Whether it may be over by the next time. @param {unknown} error */
function isPassing(error) {
  return codeOf(error) === 1006 || PASSING.some((status) => status === statusOf(error));
}

// The entries of a store, made of pages and changes. No I/O, no clock: times are arguments.

/**
 * @typedef {{value: string, version: number}} Held Of an entry, its value as it came.
 * @typedef {Map<string, Held>} Entries By key, as it came: equal keys have equal texts.
 * @typedef {[key: string, value: string, version: number, expires?: number | null]} Row Of a page.
 * @typedef {{number: number, kind: number, key: string | null, value: string | null, old: string | null,
 *   publisher: string | null, present: boolean, partial: boolean, isOther: boolean}} Change
 *   `kind`: Of `CHANGE_KINDS`. `key`: Null where all entries are gone. `present`: Whether it stands for an entry that
 *   was there before. `partial`: Whether it makes a state of the store only with those behind it. `isOther`: Whether
 *   it is of an entry that is not copied.
 * @typedef {{epoch: number, number: number, until: number | null, entries: Entries}} Loading
 *   A state that is being read.
 */

/** Kinds of changes of a store, by their numbers. */
const PUT = 0;
const ERASED = 1;
export const CLEARED = 3;
export const CHANGE_KINDS = Object.freeze(/** @type {const} */ (["put", "erase", "expire", "clear"]));

/** What a copy of a store misses. */
const NOTHING = "nothing";
const CHANGES = "changes";
const SNAPSHOT = "snapshot";

/** Most changes that wait for one before them, and that a watch holds before the store is not read on. */
export const HELD_CHANGES = 65_536;

/**
 * A copy of a store, made of its entries as they were read, page by page, and of the changes behind the beginning of
 * that. Each change is applied once, in the order of their numbers; what comes before its turn is held. The same as
 * hub/stores/replica.py.
 */
export class Copy {
  /** @type {Entries} */ entries = new Map();
  isReady = false;
  freshMs = -Infinity; // the master's state was this one at that time
  #epoch = 0;
  #number = 0;
  /** @type {Loading | null} */ #loading = null;
  #mustLoad = true;
  #heardEpoch = 0; // the highest; in it, the highest number, and when that was heard
  #last = 0;
  /** @type {number | null} */ #heardMs = null;
  /** @type {Map<number, Change>} Those that wait for one before them, by number. */
  #held = new Map();

  get number() { return this.#loading?.number ?? this.#number; }

  get needs() {
    const loading = this.#loading;
    if (loading === null) return this.#mustLoad ? SNAPSHOT : this.#number < this.#last ? CHANGES : NOTHING;
    return loading.until !== null && loading.number < Math.max(loading.until, this.#last) ? CHANGES : NOTHING;
  }

  /** @param {number} epoch @param {number} number */
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

  /** There are no more pages. Returns what has changed, as `hear`. @param {number} number */
  finish(number) {
    if (this.#loading === null) return [];
    this.#loading.until = number;
    return this.#goOn();
  }

  forgotten() {
    this.#loading = null;
    this.#mustLoad = true;
  }

  // Returns the changes that were applied, in order.
  /** @param {number} epoch @param {Change[]} changes @returns {Change[]} */
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

  // The master's last change had this number, at that time or later.
  /** @param {number} epoch @param {number} number @param {number} atMs */
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

  /** @param {Entries} entries @param {number} number */
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

// Pages may have brought newer versions than those that a change makes. Returns it with the old value of here.
/** @param {Entries} entries @param {Change} change @returns {Change} */
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
 * @param {Entries} before @param {Entries} behind @param {number} number @param {boolean} present @returns {Change[]}
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
