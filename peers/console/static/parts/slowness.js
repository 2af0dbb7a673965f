/**
 * Why a connection is slow, in a sentence: how much comes for it, how much of that it takes, and what becomes of the rest.
 */

import { fullness } from "../feeds/connections.js";
import { words } from "../words.js";
import { short, whole } from "./figures.js";
import { visible } from "./visible.js";

/** A queue that is so full is called full: what is dropped makes room for a moment. */
const FULL = 0.95;

/** Prefixes that are named. */
const NAMED = 3;

/** @import { Connection } from "../feeds/services.d.ts" */

/**
 * Return why it is slow, as far as that is seen; empty for one that has nothing waiting, and loses nothing.
 *
 * @param {Connection} row
 */
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
