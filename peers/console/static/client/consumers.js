/**
 * The member of a consumer that a caller of `consume` has, see docs/consumers.md. Unacknowledged messages come again;
 * acknowledgements of one turn travel together.
 */

import { codeOf, OVERFLOW, RESPONDER_GONE, statusOf, TIMED_OUT } from "./errors.js";
import { pause } from "./waiting.js";

/**
 * @import { ConsumedMessage, ConsumeOptions } from "../hub.js"
 *
 * @typedef {(topic: string, value: object, timeoutMs: number) => Promise<any>} Ask
 */

/** Most messages of a consumer that are here and not acknowledged. */
const PREFETCH = 256;

/** How long the hub waits for messages of a consumer before it is asked again; and where it was asked too much at once. */
const CONSUME_WAIT_MS = 20_000;
const CONSUME_AGAIN_MS = 10;
/** How long it waits where the hub that records is away from the one that is connected. */
const CONSUME_AWAY_MS = 500;

/** Longest delay of a `nak`, seconds; the hub has the same. */
const DELAY_LIMIT_S = 86_400;

/**
 * What the program has said of messages, for the hub.
 *
 * @typedef {{what: string, offsets: Set<number>, delayS: number, told: () => void}} Word
 */

/** What one caller of `consume` holds: its share of a consumer, for as long as a connection lasts. */
class Membership {
  #ask;
  #member = 0;
  #before = 0; // the last one, which the hub may not know to be over
  #got = 0; // how many messages have come: where the hub has sent more, an answer was lost, and comes again
  #seen = new Set(); // offsets that were handed out and not acknowledged
  /** @type {any[][]} What has come and was not handed out. */
  #rows = [];
  /** @type {Word[]} What the hub was not told of yet. */
  #words = [];
  /** @type {Promise<void> | null} */ #telling = null;

  /** @param {(what: string, value: object) => Promise<any>} ask Asks the hub about the consumer. */
  constructor(ask) {
    this.#ask = ask;
  }

  /** @param {object} joining */
  async join(joining) {
    this.#before = this.#member || this.#before;
    this.#member = 0;
    this.#got = 0;
    this.#seen = new Set();
    this.#rows = [];
    this.#forgetWords();
    this.#member = (await this.#ask("join", { ...joining, instead: this.#before })).member;
  }

  /** Yields messages until this is no member any more. */
  async *messages() {
    for (;;) {
      const asked = { member: this.#member, wait_ms: CONSUME_WAIT_MS, values: true, got: this.#got };
      const rows = await this.#ask("take", asked);
      if (rows === null) return;
      this.#got += rows.length;
      const seen = this.#seen;
      this.#rows = rows;
      for (let row = this.#rows.shift(); row !== undefined; row = this.#rows.shift()) {
        const [offset, timeUs, deliveries, topic, readable, value] = row;
        seen.add(offset);
        // What is not in `seen` any more is delivered again, or done with.
        const ack = () => {
          if (seen === this.#seen && seen.delete(offset)) this.#say("acknowledge", offset);
        };
        const nak = async ({ delayS = 0 } = {}) => {
          if (!(delayS >= 0 && delayS <= DELAY_LIMIT_S)) throw new TypeError(`delayS is ${delayS}: 0 to ${DELAY_LIMIT_S}`);
          if (seen === this.#seen && seen.delete(offset)) {
            await new Promise((/** @type {(told: void) => void} */ told) => this.#say("nak", offset, delayS, told));
          }
        };
        const inProgress = () => {
          if (seen === this.#seen && seen.has(offset)) this.#say("in_progress", offset);
        };
        if (readable) yield { offset, time: new Date(timeUs / 1000), topic, value, deliveries, ack, nak, inProgress };
        else ack();
      }
    }
  }

  /** @param {string} what @param {number} offset @param {number} [delayS] @param {() => void} [told] */
  #say(what, offset, delayS = 0, told) {
    const last = this.#words.at(-1);
    if (last?.what === what && told === undefined) last.offsets.add(offset);
    else this.#words.push({ what, offsets: new Set([offset]), delayS, told: told ?? (() => {}) });
    this.#telling ??= this.#tell();
  }

  async #tell() {
    await undefined; // all of this turn together
    try {
      while (this.#words.length && this.#member) {
        const { what, offsets, delayS, told } = /** @type {Word} */ (this.#words.shift());
        const asked = { member: this.#member, offsets: [...offsets] };
        try {
          if (what === "nak") this.#drop(await this.#ask(what, { ...asked, delay_s: delayS }));
          else await this.#ask(what, asked);
        } finally {
          told();
        }
      }
    } catch {
      // what the hub was not told of comes again
    } finally {
      this.#telling = null;
      this.#forgetWords();
    }
  }

  /** @param {number[]} offsets What the hub has taken back. */
  #drop(offsets) {
    const gone = new Set(offsets);
    this.#rows = this.#rows.filter(([offset]) => !gone.has(offset));
    for (const offset of gone) this.#seen.delete(offset);
  }

  #forgetWords() {
    for (const { told } of this.#words.splice(0)) told();
  }

  async leave() {
    await this.#telling;
    try {
      if (this.#member) await this.#ask("leave", { member: this.#member, seen: [...this.#seen] });
    } catch {
      // it has left with its connection
    }
  }
}

/**
 * The messages of a consumer, over as many connections as it takes.
 * @param {Ask} ask Asks the hub.
 * @param {() => boolean} isClosed Whether the client is.
 * @param {string} name
 * @param {string | readonly string[]} prefixes
 * @param {ConsumeOptions} options
 * @returns {AsyncGenerator<ConsumedMessage, never>}
 */
export async function* consumed(ask, isClosed, name, prefixes, options) {
  const { fromOffset = null, fromTime, key, redeliverS, deliveries, deadLetters, prefetch = PREFETCH } = options;
  const wished = Object.entries({ key, redeliver_s: redeliverS, deliveries, dead_letters: deadLetters });
  const list = typeof prefixes === "string" ? [prefixes] : [...prefixes];
  const said = Object.fromEntries(wished.filter(([, value]) => value !== undefined));
  const first = list.length ? { prefixes: list, ...said } : null;
  const begin = fromTime === undefined ? { start: fromOffset } : { time_us: 1000 * Number(fromTime) };
  const membership = new Membership((what, value) => askPatiently(ask, what, value));
  let joined = false;
  try {
    // Later it must be there: one that was removed, or lost with the hub's disk, is not to begin anew unseen.
    for (let terms = first; ; terms = null) {
      try {
        await membership.join({ name, terms, messages: prefetch, ...begin });
        joined = true;
        yield* membership.messages();
      } catch (error) {
        const isAway = joined && statusOf(error) === RESPONDER_GONE;
        if (isClosed() || !(isAway || codeOf(error) === 1006 || statusOf(error) === TIMED_OUT)) throw error;
        if (isAway) await pause(CONSUME_AWAY_MS);
      }
    }
  } finally {
    await membership.leave();
  }
}

// Ask the hub itself about a consumer, again where it was asked too much at once.
/** @param {Ask} ask @param {string} what @param {object} value */
async function askPatiently(ask, what, value) {
  for (;;) {
    try {
      return await ask(`$hub/consumers/${what}`, value, 2 * CONSUME_WAIT_MS);
    } catch (error) {
      if (statusOf(error) !== OVERFLOW) throw error;
      await pause(CONSUME_AGAIN_MS);
    }
  }
}
