/**
 * Keeps a copy equal to its master, over a client that may lose its connection. What it copies into is `copy.js`.
 */

import { codeOf, HubError, NO_RESPONDER, NOT_ALLOWED, PASSING, statusOf } from "../errors.js";
import { received } from "../values/travel.js";
import { deferred, handled, now } from "../waiting.js";
import { CLEARED, Copy, ERASED, NOTHING, SNAPSHOT } from "./copy.js";

/**
 * @import { Change } from "./copy.js"
 * @import { Line } from "./store.js"
 *
 * @typedef {Line & {read: (asked: unknown[]) => Promise<any>}} CopyLine
 *
 * @typedef {[number: number, kind: number, key: string | null, value: string | null, expires: unknown, publisher: string | null]} ChangeRow
 *
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
  /** @type {Set<{version: number, settle: (error: Error | null) => void}>} */
  #waiters = new Set();
  #off;
  /** @type {Promise<void> | undefined} Settles as the hub sends no more changes. */
  #left;
  /** @type {Error | null} */
  #error = null;

  /**
   * @param {CopyLine} line
   * @param {string} topic
   * @param {string} prefix
   * @param {(changes: Change[]) => void} told
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

  get confirmed() {
    return this.#confirmed.promise;
  }

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

  /**
   * @param {number} version
   * @param {number} timeoutMs
   * @returns {Promise<void>}
   */
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

  /**
   * @param {number} epoch
   * @param {ChangeRow[]} rows
   */
  #hear(epoch, rows) {
    if (this.#room) return; // what is missing then is asked for later
    this.#tell(this.copy.hear(epoch, this.#changes(rows)));
    if (this.copy.needs !== NOTHING) this.#want();
  }

  /**
   * Changes of entries that are not copied do nothing.
   *
   * @param {ChangeRow[]} rows
   * @returns {Change[]}
   */
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

  /**
   * Whether it is of no use to ask again. A store that was there may come back.
   *
   * @param {unknown} error
   */
  #isFinal(error) {
    if (this.#error || !(error instanceof HubError) || error.code === 1000) return true;
    return statusOf(error) === NOT_ALLOWED || (statusOf(error) === NO_RESPONDER && !this.copy.isReady);
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
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

/**
 * Whether a key, as it travels, is a string that begins like this.
 *
 * @param {string | null} key
 * @param {string} prefix
 */
function beginsWith(key, prefix) {
  if (prefix === "") return true;
  try {
    const found = received(key);
    return typeof found === "string" && found.startsWith(prefix);
  } catch {
    return false; // none that is understood here
  }
}

/**
 * Whether it may be over by the next time.
 *
 * @param {unknown} error
 */
function isPassing(error) {
  return codeOf(error) === 1006 || PASSING.some((status) => status === statusOf(error));
}
