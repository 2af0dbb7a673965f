/**
 * Reading a journal: once, piece by piece, or for ever, as it grows.
 *
 * ```
 * stream: FETCH at its position ─▶ deliver ─▶ room? ─▶ FETCH ... ─▶ at the end: FETCH with a wait, which the next commit answers
 * ```
 *
 * Owner of the state: `JournalAccess`, of one client. Invariants: what is not answered is asked again over the next connection, so
 * that a stream is nothing but its position; `FETCHES` are unanswered at most. Why nothing comes live: docs/adr/0027.
 */

import { checkedPrefixes } from "./checks.js";
import { HubError } from "./errors.js";
import { END_OF_TIME_MS, goOn, isCut, place, recordOf, whose } from "./journal.js";
import { wantedPrefixes } from "./rules.js";
import { Subscription } from "./subscription.js";
import { deferred, pause } from "./waiting.js";

/**
 * @import { From, JournalRecord, ReadOptions, Wanted } from "../hub.js"
 * @import { Found, Order } from "./journal.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Reader } from "./subscription.js"
 * @import { Deferred } from "./waiting.js"
 *
 * @typedef {object} Fetch
 * @property {Order} order
 * @property {Deferred<Found>} answer
 * @property {() => boolean} isWanted
 * @property {boolean} isSent Over the connection that there is.
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
  /** @type {Set<Subscription>} */
  #streams = new Set();

  /**
   * @param {Line} line
   * @param {Reports} reports
   */
  constructor(line, reports) {
    this.#line = line;
    this.#reports = reports;
  }

  /**
   * @param {string | readonly string[]} prefixes
   * @param {ReadOptions} options
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

  /**
   * A subscription that is read from the journal, for ever.
   *
   * @param {Wanted} prefixes
   * @param {From} from
   * @param {Reader} reader
   */
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

  /**
   * @param {Subscription} subscription
   * @param {Order} order
   * @param {Reader} reader
   */
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

  /**
   * @param {Subscription} subscription
   * @param {Found} found
   */
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

  /**
   * @param {Order} order
   * @param {() => boolean} isWanted
   * @returns {Promise<Found>}
   */
  #fetch(order, isWanted = () => true) {
    this.#line.assertNotClosed();
    /** @type {Deferred<Found>} */
    const answer = deferred();
    this.#fetches.set(this.#line.confirmations.number(), { order, answer, isWanted, isSent: false });
    this.#send();
    return answer.promise;
  }

  /** Send what waits for its turn, oldest first. */
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

  /**
   * @param {Found & {request: number}} message
   * @param {number} characters
   */
  receive(message, characters) {
    this.#fetches.get(message.request)?.answer.resolve({ ...message, characters });
    this.#fetches.delete(message.request);
    this.#send();
  }

  /**
   * The hub does not take a message; true if it is one of these.
   *
   * @param {number} request
   * @param {Error} error
   */
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
