/**
 * A subscription that begins in a journal, and goes over into what comes live, without a gap and without a duplicate.
 *
 * ```
 * history ──▶ near its end: subscribe, keep aside what comes ──▶ history up to where the subscription begins ──▶ aside ──▶ live
 * ```
 *
 * Owner of the state: `Following`: how far it is. Each connection is one attempt; one that loses something at the seam is
 * followed by another. Bounded: `ASIDE_MESSAGES` wait at the seam. Not here: connections (`followers.js`).
 */

import { codeOf, HubError } from "./errors.js";
import { goOn, recordOf } from "./journal.js";
import { pause } from "./waiting.js";

/**
 * @import { Client, Message } from "../hub.js"
 * @import { Found, Order } from "./journal.js"
 * @import { Deliver, Subscription } from "./subscription.js"
 *
 * @typedef {object} JournalLine The connection that it has for itself.
 * @property {(order: Order) => Promise<Found>} fetch
 * @property {(prefixes: readonly string[], callback: Deliver) => Subscription} subscribe
 * @property {Client["on"]} on
 * @property {() => number | undefined} began The offset at which the subscription that was confirmed last begins.
 * @property {() => string | undefined} journal The id of its hub's journal.
 *
 * @typedef {object} Reader
 * @property {() => Promise<void> | undefined} room A promise while whoever reads is behind.
 * @property {(count: number) => void} dropped
 * @property {() => void} caughtUp
 */

/** A stream that follows a journal for ever waits so long for more before it asks again, and after each piece. */
const FOLLOW_WAIT_MS = 30_000;
const FOLLOW_PAUSE_MS = 50;

/** And so long before it asks again where that hub cannot be reached. */
const FOLLOW_AGAIN_MS = 500;

/** So near the end of the journal history goes over into live messages: records. */
const NEAR_RECORDS = 1_000;

/** What may come live while the last of history is read, messages; over it the seam is tried again. */
const ASIDE_MESSAGES = 100_000;

export class Following {
  #order;
  #followed;
  #stays;
  #reader;

  /**
   * What is delivered live has no offset, and cannot be joined to the journal of another hub: who `stays`, or reads such
   * a one, reads on in the journal.
   *
   * @param {Order} order
   * @param {Subscription} followed
   * @param {boolean} stays
   * @param {Reader} reader
   */
  constructor(order, followed, stays, reader) {
    this.#order = order;
    this.#followed = followed;
    this.#stays = stays;
    this.#reader = reader;
  }

  /**
   * Read history up to its end, then live, over this connection; false if the seam could not be crossed: try again.
   *
   * @param {JournalLine} line
   * @returns {Promise<boolean>}
   */
  async over(line) {
    const followed = this.#followed;
    let found = await this.#take(line);
    if (this.#stays || this.#order.hub !== undefined || found.journal !== line.journal()) {
      return this.#readOn(line, found);
    }
    while (followed.active && found.head - found.next >= NEAR_RECORDS) found = await this.#take(line);
    /** @type {[message: Message, size: number][]} */
    let aside = [];
    let broken = false;
    const off = [line.on("dropped", () => { broken = true; }), line.on("close", () => { broken = true; })];
    let live = false;
    const subscription = line.subscribe(followed.prefixes, (message, size) => {
      if (live) return followed.active && followed.callback(message, size);
      aside.push([message, size]);
      broken ||= aside.length > ASIDE_MESSAGES;
      return undefined;
    });
    await subscription.confirmed;
    const seam = line.began();
    if (seam === undefined) throw new HubError(4012, "the hub records nothing now, so that history has no end");
    while (followed.active && !broken && Number(this.#order.start) < seam) await this.#take(line, { end: seam });
    off.forEach((stop) => stop());
    if (broken) return false;
    live = true;
    line.on("dropped", this.#reader.dropped);
    for (const [message, size] of aside) if (followed.active) followed.callback(message, size);
    aside = [];
    return true;
  }

  /**
   * Read a piece, and wait until its reader has room for another one.
   *
   * @param {JournalLine} line
   * @param {Partial<Order>} [more]
   */
  async #take(line, more = {}) {
    const found = await line.fetch({ ...this.#order, ...more });
    for (const record of found.records) if (this.#followed.active) this.#followed.callback(recordOf(record), 0);
    goOn(this.#order, found);
    await this.#reader.room();
    return found;
  }

  /**
   * Read a journal as it grows.
   *
   * @param {JournalLine} line
   * @param {Found} found
   */
  async #readOn(line, found) {
    let { head, next } = found;
    while (this.#followed.active) {
      const more = head <= next ? { wait_ms: FOLLOW_WAIT_MS } : {};
      if (head <= next) {
        this.#reader.caughtUp();
        await pause(FOLLOW_PAUSE_MS);
      }
      try {
        ({ head, next } = await this.#take(line, more));
      } catch (error) {
        if (codeOf(error) !== 1013) throw error;
        await pause(FOLLOW_AGAIN_MS); // there may be a way again
      }
    }
    return true;
  }
}
