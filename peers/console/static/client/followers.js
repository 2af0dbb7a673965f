/**
 * Subscriptions that begin in a journal: each has a line of its own, and another one where something was lost at the seam.
 *
 * Owner of the state: `Followers`, of one client: the lines. Not here: how history goes over into live (`following.js`).
 */

import { Following } from "./following.js";
import { END_OF_TIME_MS, place, whose } from "./journal.js";
import { wantedPrefixes } from "./rules.js";
import { Subscription } from "./subscription.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { From, Wanted } from "../hub.js"
 * @import { JournalLine } from "./following.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Deliver } from "./subscription.js"
 *
 * @typedef {JournalLine & {close: () => Promise<void>}} OwnLine
 */

export class Followers {
  #line;
  #reports;
  #dial;
  /** @type {Set<OwnLine>} */
  #lines = new Set();

  /**
   * @param {Line} line
   * @param {Reports} reports
   * @param {() => OwnLine} dial Makes a line for one of them.
   */
  constructor(line, reports, dial) {
    this.#line = line;
    this.#reports = reports;
    this.#dial = dial;
  }

  /**
   * A subscription that begins in the journal. `room` gives a promise while its reader is behind.
   *
   * @param {Wanted} prefixes
   * @param {From} from
   * @param {Deliver} deliver
   * @param {(error: Error | null) => void} ended
   * @param {() => Promise<void> | undefined} room
   */
  follow(prefixes, { fromOffset, fromTime, hub, recorded = false }, deliver, ended, room) {
    this.#line.assertNotClosed();
    const live = handled(deferred());
    const keyed = wantedPrefixes(/** @type {string | readonly string[]} */ (prefixes)); // a rule is none, and refused
    const followed = new Subscription(keyed, deliver, ended, () => stop(null));
    followed.confirmedBy([live.promise]);
    /** @type {OwnLine | undefined} */
    let line;
    const hangUp = () => {
      if (line === undefined) return Promise.resolve();
      this.#lines.delete(line);
      return line.close();
    };
    const stop = (/** @type {Error | null} */ error) => {
      if (!followed.active) return Promise.resolve();
      followed.ended(error);
      return hangUp();
    };
    const dial = () => {
      hangUp();
      line = this.#dial();
      line.on("error", (error) => this.#reports.report(error));
      this.#lines.add(line);
      return line;
    };
    const from = recorded && fromOffset === undefined ? fromTime ?? END_OF_TIME_MS : fromTime;
    const order = { prefixes: [...followed.prefixes], ...place(fromOffset ?? 0, from), ...whose(hub) };
    const reader = { room, dropped: (/** @type {number} */ count) => this.#reports.dropped(count), caughtUp: () => live.resolve() };
    const following = new Following(order, followed, recorded, reader);
    const run = async () => {
      while (followed.active && !(await following.over(dial())));
      live.resolve();
    };
    run().catch((error) => {
      if (!followed.active) return;
      stop(error);
      this.#reports.report(error);
    });
    return followed;
  }

  opened() {}

  lost() {}

  finish() {
    for (const line of this.#lines) line.close();
  }
}
