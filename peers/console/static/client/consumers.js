/**
 * The share of a named consumer that a caller of `consume` has, see docs/consumers.md.
 *
 * Owner of the state: `Membership`, for one connection at a time. Invariants: what was not acknowledged comes again; acknowledgements of one
 * turn travel together.
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

/** What one caller of `consume` holds: its share of a consumer, for as long as a connection lasts. */
class Membership {
  #ask;
  #member = 0;
  #before = 0; // the last one, which the hub may not know to be over
  #got = 0; // how many messages have come: where the hub has sent more, an answer was lost, and comes again
  #seen = new Set(); // offsets that were handed out and not acknowledged
  /** @type {number[]} */
  #acks = [];
  /** @type {Promise<void> | null} */
  #telling = null;

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
    this.#acks = [];
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
      for (const [offset, timeUs, deliveries, topic, readable, value] of rows) {
        seen.add(offset);
        const ack = () => this.#acknowledge(seen, offset);
        if (readable) yield { offset, time: new Date(timeUs / 1000), topic, value, deliveries, ack };
        else ack();
      }
    }
  }

  /**
   * @param {Set<number>} seen
   * @param {number} offset
   */
  #acknowledge(seen, offset) {
    if (seen !== this.#seen || !seen.delete(offset)) return; // it is delivered again, or was acknowledged
    this.#acks.push(offset);
    this.#telling ??= this.#tell();
  }

  async #tell() {
    await undefined; // all of this turn together
    try {
      while (this.#acks.length && this.#member) {
        await this.#ask("acknowledge", { member: this.#member, offsets: this.#acks.splice(0) });
      }
    } catch {
      // what the hub was not told of comes again
    } finally {
      this.#telling = null;
    }
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
 *
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

/**
 * Ask the hub itself about a consumer, again where it was asked too much at once.
 *
 * @param {Ask} ask
 * @param {string} what
 * @param {object} value
 */
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
