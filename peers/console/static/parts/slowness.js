/**
 * `Slowness`: why somebody is slow, in a sentence: how much comes for him, how much of that he takes, and what becomes of the rest.
 *
 * Owner of the state: `Slowness`, of one connection: what was told of it in the last `WINDOW_S` seconds, over which rates are
 * taken, as a reader that pauses takes nothing for a while, and very much behind that. Bound: `LOOKS` looks.
 */

import { fullness } from "../feeds/connections.js";
import { words } from "../words.js";
import { short, whole } from "./figures.js";
import { visible } from "./visible.js";

const WINDOW_S = 20;
const LOOKS = 60;

/** Over less than this no rate is told: a reader takes in gulps, seconds. */
const LEAST_S = 3;

/** A queue that is so full is called full: what is dropped makes room for a moment. */
const FULL = 0.95;

/** Prefixes that are named. */
const NAMED = 3;

/** @import { Connection } from "../feeds/services.d.ts" */

export class Slowness {
  /** @type {{at: number, taken: number, come: number, lost: number}[]} */
  #looks = [];

  /**
   * Return why it is slow, as far as that is seen; empty for one that has nothing waiting, and loses nothing.
   *
   * @param {Connection} row As it was told last.
   * @param {number} at When, seconds.
   */
  why(row, at) {
    const taken = row.delivered_messages;
    const lost = row.dropped_messages;
    this.#looks.push({ at, taken, lost, come: taken + lost + row.queued_messages });
    this.#looks = this.#looks.filter((one) => at - one.at <= WINDOW_S).slice(-LOOKS);
    const [first] = this.#looks;
    if (row.queued_messages === 0 && lost === first.lost) return "";
    const { slowness: said } = words;
    const seconds = at - first.at;
    const under = placesOf(row);
    const takes = seconds < LEAST_S
      ? said.measuring(under)
      : said.takes(short(Math.max(0, taken - first.taken) / seconds), short(Math.max(0, taken + lost + row.queued_messages - first.come) / seconds), under);
    if (fullness(row) >= FULL) return said.full(takes, whole(row.queued_messages), said.overflow[row.overflow] ?? row.overflow);
    return lost > first.lost
      ? said.loses(takes, whole(lost - first.lost), whole(Math.round(seconds)), whole(row.queued_messages))
      : said.waits(takes, whole(row.queued_messages), whole(row.queue.messages));
  }
}

/**
 * Under what messages come for a connection: its first prefixes, and how many more it has.
 *
 * @param {Connection} row
 */
function placesOf({ sample, prefixes }) {
  const { slowness: said, connection } = words;
  const named = sample.slice(0, NAMED).map((prefix) => visible(prefix) || connection.everything).join(", ");
  const more = prefixes - Math.min(NAMED, sample.length);
  return more > 0 && named ? said.andMore(named, whole(more)) : named || said.noPrefix;
}
