/** Reading a journal, and following it: offsets, pieces, and the requests for them. */

import { checkedPrefixes } from "./checks.js";
import { codeOf, HubError, OVERFLOW, RESPONDER_GONE, statusOf, TIMED_OUT } from "./errors.js";
import { Subscription, wantedPrefixes } from "./subscriptions.js";
import { deferred, pause } from "./waiting.js";

/**
 * @import { ConsumedMessage, ConsumeOptions, From, JournalRecord, ReadOptions, Wanted } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Reader } from "./subscriptions.js"
 * @import { Deferred } from "./waiting.js"
 */

/**
 * @typedef {{prefixes: string[], journal: string, hub?: string, start?: number, epoch?: number, time_ms?: number,
 *   end?: number, wait_ms?: number, columns?: readonly string[]}} Order
 *   What is asked of a journal; it goes on behind each piece. `journal`: Its id; empty before the first piece.
 *   `epoch`: In which `start` was read.
 * @typedef {{records: ({time_ms?: number} & Omit<JournalRecord, "time">)[], start: number, next: number, head: number,
 *   epoch?: number, journal?: string, dropped?: number, characters?: number}} Found
 *   A piece of it. `next`: The offset to go on at. `head`: The one behind the newest record. `epoch`: In which all
 *   this is told. `dropped`: Records without a JSON form, which are left out. `characters`: How long its text was.
 */

/** A time behind all records, milliseconds since 1970: who begins there begins with what comes. */
const END_OF_TIME_MS = Number.MAX_SAFE_INTEGER;

/**
 * Where in the journal: an offset, with its epoch if that is known, or, where it is given, a time.
 * @param {number} start @param {Date | number} [time] @param {number} [epoch]
 * @returns {{time_ms?: number, start?: number, epoch?: number}}
 */
export function place(start, time, epoch) {
  if (time !== undefined) return { time_ms: Number(time) };
  for (const number of [start, epoch ?? 0]) {
    if (!Number.isSafeInteger(number) || number < 0) {
      throw new TypeError(`an offset, and its epoch, is a whole number from 0 on, not ${number}`);
    }
  }
  return { start, epoch };
}

// Whose journal is read: that of the hub that is connected, or of another one. Its id comes with the first piece.
/** @param {string} [hub] @returns {{journal: string, hub?: string}} */
export function whose(hub) {
  return hub === undefined || hub === "" ? { journal: "" } : { journal: "", hub: String(hub) };
}

/** Whether a subscription has no place in a journal to begin at. @param {From} from */
export function isLive({ fromOffset, fromTime, epoch, hub, recorded }) {
  if (epoch && fromOffset === undefined) throw new TypeError("epoch: it belongs to an offset; give fromOffset as well");
  if (fromOffset !== undefined || fromTime !== undefined || recorded) return false;
  if (hub !== undefined && hub !== "") throw new TypeError("hub: give fromOffset, fromTime or recorded as well");
  return true;
}

/** Let an order go on behind a piece, in the same journal. @param {Order} order @param {Found} found */
export function goOn(order, found) {
  order.start = found.next;
  order.epoch = found.epoch;
  order.journal = found.journal ?? order.journal;
  delete order.time_ms;
}

// Whether a piece begins earlier than it was asked to: what was read before is lost, and others have its offsets.
/** @param {Order} order @param {Found} found */
function isCut({ start }, found) {
  return start !== undefined && found.start < start;
}

// A record as the hub has sent it: without what was not asked for. Its offset comes with the epoch of its piece.
/** @param {{time_ms?: number} & Omit<JournalRecord, "time">} record @param {number} [epoch] @returns {JournalRecord} */
function recordOf({ time_ms, ...fields }, epoch) {
  const record = time_ms === undefined ? fields : { time: new Date(time_ms), ...fields };
  if (epoch !== undefined && "offset" in record) Object.assign(record, { epoch });
  return /** @type {JournalRecord} */ (record);
}

// Reading a journal: once, piece by piece, or for ever, as it grows.

/**
 * @typedef {{order: Order, answer: Deferred<Found>, isWanted: () => boolean, isSent: boolean}} Fetch
 *   `isSent`: Over the connection that there is.
 */

/** A hub lets so many of one connection wait for their answers; and of these, so many may be at the end of the journal: the others read. */
const FETCHES = 256;
const WAITING_FETCHES = 240;

/** How long such a one waits, milliseconds. Each commit ends it; so streams that must take turns lose little. */
const WAIT_MS = 10_000;

/** At the end of the journal it is read at most every so many milliseconds, however many commits there are. */
const PAUSE_MS = 50;

/** What cannot be read now is asked for again after so many milliseconds. */
const AGAIN_MS = 500;

const GONE = 4011;
const UNREACHABLE = 1013;

export class JournalAccess {
  #line;
  #reports;
  /** @type {Map<number, Fetch>} By number; oldest first. */
  #fetches = new Map();
  /** @type {Set<Subscription>} */ #streams = new Set();

  /** @param {Line} line @param {Reports} reports */
  constructor(line, reports) {
    this.#line = line;
    this.#reports = reports;
  }

  /**
   * @param {string | readonly string[]} prefixes @param {ReadOptions} options
   * @returns {AsyncGenerator<JournalRecord, void>}
   */
  async *read(prefixes, { start = 0, startTime, epoch, end, hub, columns }) {
    const order = { prefixes: checkedPrefixes(prefixes), ...place(start, startTime, epoch), ...whose(hub), columns };
    let last = end;
    for (;;) {
      const found = await this.#fetch(last === undefined ? order : { ...order, end: last });
      if (isCut(order, found)) throw new HubError(GONE, `records before offset ${order.start} are lost`, found.start);
      last ??= found.head;
      for (const record of found.records) yield recordOf(record, found.epoch);
      if (found.next >= last) return;
      goOn(order, found);
    }
  }

  // A subscription that is read from the journal, for ever.
  /** @param {Wanted} prefixes @param {From} from @param {Reader} reader */
  follow(prefixes, { fromOffset, fromTime, epoch, hub, recorded = false }, reader) {
    this.#line.assertNotClosed();
    const keyed = wantedPrefixes(/** @type {string | readonly string[]} */ (prefixes)); // a rule is none, and refused
    const time = recorded && fromOffset === undefined ? fromTime ?? END_OF_TIME_MS : fromTime;
    const order = { prefixes: [...keyed.keys], ...place(fromOffset ?? 0, time, epoch), ...whose(hub) };
    const end = (/** @type {Error | null} */ error) => {
      this.#streams.delete(subscription);
      subscription.ended(error);
    };
    const subscription = new Subscription(keyed, reader.deliver, reader.ended, async () => end(null));
    this.#streams.add(subscription);
    this.#follow(subscription, order, reader).catch((error) => {
      if (!subscription.active) return;
      end(error);
      this.#reports.report(error);
    });
    return subscription;
  }

  /** @param {Subscription} subscription @param {Order} order @param {Reader} reader */
  async #follow(subscription, order, { room, missed }) {
    const caughtUp = deferred();
    subscription.confirmedBy([caughtUp.promise]);
    const isWanted = () => subscription.active;
    const miss = (/** @type {number} */ count) => {
      missed(count);
      this.#reports.dropped(count);
    };
    /** @type {number | undefined} The end of the journal when the stream began. */
    let head;
    let more = {};
    while (subscription.active) {
      try {
        const found = await this.#fetch({ ...order, ...more }, isWanted);
        if (isCut(order, found)) this.#reports.cut(Number(order.start), found.start);
        this.#deliver(subscription, found);
        if (found.dropped) miss(found.dropped);
        goOn(order, found);
        head ??= found.head;
        if (found.next >= head) caughtUp.resolve();
        more = found.next < found.head ? {} : { wait_ms: WAIT_MS };
      } catch (error) {
        if (!(error instanceof HubError) || head === undefined) throw error;
        const { code, first } = error;
        const start = Number(order.start);
        if (code === GONE && first !== undefined && (first > start || order.epoch)) {
          if (first > start) miss(first - start);
          else this.#reports.cut(start, first); // to where records are deleted by now
          order.start = first;
          delete order.epoch; // the hub has told this one just now: it would cut it back, and refuse it again
        } else if (code === UNREACHABLE) {
          await pause(AGAIN_MS);
        } else {
          throw error;
        }
      }
      await room();
      if ("wait_ms" in more) await pause(PAUSE_MS);
    }
  }

  /** @param {Subscription} subscription @param {Found} found */
  #deliver(subscription, { records, epoch, characters = 0 }) {
    for (const record of records) {
      if (!subscription.active) return;
      try {
        subscription.callback(recordOf(record, epoch), characters / records.length);
      } catch (error) {
        this.#reports.report(error);
      }
    }
  }

  /** @param {Order} order @param {() => boolean} isWanted @returns {Promise<Found>} */
  #fetch(order, isWanted = () => true) {
    this.#line.assertNotClosed();
    /** @type {Deferred<Found>} */
    const answer = deferred();
    this.#fetches.set(this.#line.confirmations.number(), { order, answer, isWanted, isSent: false });
    this.#send();
    return answer.promise;
  }

  #send() {
    if (!this.#line.isOpen) return;
    const sent = [...this.#fetches.values()].filter(({ isSent }) => isSent);
    let unanswered = sent.length;
    let waiting = sent.filter(({ order }) => order.wait_ms).length;
    for (const [request, fetch] of this.#fetches) {
      const { order, isSent, isWanted } = fetch;
      if (isSent) continue;
      if (!isWanted()) {
        this.#fetches.delete(request);
      } else if (unanswered < FETCHES && (!order.wait_ms || waiting < WAITING_FETCHES)) {
        fetch.isSent = true;
        unanswered += 1;
        if (order.wait_ms) waiting += 1;
        this.#line.send({ type: "fetch", request, ...order });
      }
    }
  }

  /** @param {Found & {request: number}} message @param {number} characters */
  receive(message, characters) {
    this.#fetches.get(message.request)?.answer.resolve({ ...message, characters });
    this.#fetches.delete(message.request);
    this.#send();
  }

  /** The hub does not take a message; true if it is one of these. @param {number} request @param {Error} error */
  refuse(request, error) {
    this.#fetches.get(request)?.answer.reject(error);
    const isOurs = this.#fetches.delete(request);
    if (isOurs) this.#send();
    return isOurs;
  }

  opened() {
    this.#send();
  }

  lost() {
    for (const fetch of this.#fetches.values()) fetch.isSent = false;
  }

  /** @param {Error} error */
  finish(error) {
    for (const subscription of this.#streams) subscription.ended(error);
    this.#streams.clear();
    for (const { answer } of this.#fetches.values()) answer.reject(error);
    this.#fetches.clear();
  }
}

// The member of a consumer that a caller of `consume` has, see docs/consumers.md. Unacknowledged messages come again;
// acknowledgements of one turn travel together.

/** @typedef {(topic: string, value: object, timeoutMs: number) => Promise<any>} Ask */

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
 * @param {string} name @param {string | readonly string[]} prefixes @param {ConsumeOptions} options
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
