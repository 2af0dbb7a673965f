/** Requests without an answer. Each is settled once: by the answer, its timeout, or the end of the connection; none is sent twice. */

import { assertFits, checkedTopic, jsonOf } from "./checks.js";
import { HubError, RequestError, TIMED_OUT } from "./errors.js";
import { BATCH_CHARACTERS, OBJECT_BYTES } from "./publishing.js";
import { deferred, now } from "./waiting.js";

/**
 * @import { RequestOptions } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Deferred, Turn } from "./waiting.js"
 * @typedef {{topic: string, timeoutMs: number, service: boolean}} Target
 *   `service`: Whether the topic is a service's name.
 * @typedef {{target: Target, texts: string[], askers: Deferred<any>[], size: number, left: number, sent: boolean,
 *   endsAt: number, first: number, spared: boolean, timer?: ReturnType<typeof setTimeout>}} Batch
 *   `first`: The number of its first request, once it is sent. `spared`: Whether its time is over, and the hub has a
 *   little more to say so.
 * @typedef {{request: number, value?: unknown, values?: unknown[], status?: number, text?: string,
 *   count?: number}} Reply
 */

/** Default of how long an answer to a request may take, milliseconds; as a hub's. */
export const REQUEST_MS = 30_000;

/** Requests, or replies, that travel together. */
export const REQUESTS = 4_096;

/** Numbers of requests are counted modulo this. */
export const TRANSACTIONS = 2 ** 32;

/** What is asked and not answered, frame by frame: it waits to be sent, then for its answers. */
export class Requests {
  size = 0;
  #options;
  #line;
  #turn;
  /** @type {Map<string, Batch>} The batches of this turn, by target and time. */
  #open = new Map();
  /** @type {Batch[]} To be sent. */
  #waiting = [];
  /** @type {Map<number, {asker: Deferred<any>, batch: Batch}>} By number. */
  #askers = new Map();
  #next = 1;

  /** @param {{outboundBytes: number, answerMs: number}} options @param {Line} line @param {Turn} turn */
  constructor(options, line, turn) {
    this.#options = options;
    this.#line = line;
    this.#turn = turn;
  }

  get pending() {
    return this.#askers.size + this.#waiting.reduce((sum, batch) => sum + batch.texts.length, 0);
  }

  /** @param {string} topic @param {unknown} value @param {RequestOptions} options @returns {Promise<any>} */
  async request(topic, value, { timeoutMs = REQUEST_MS, service = false }) {
    this.#line.assertNotClosed();
    const text = jsonOf(value);
    assertFits(checkedTopic(topic), text, this.#line.welcome?.frame);
    const answer = this.#add({ topic, timeoutMs, service }, text);
    this.#turn.schedule();
    return answer;
  }

  /** @param {Reply} reply */
  answer({ request, value, values, status = 0, text = "", count = 1 }) {
    if (status) {
      for (let at = 0; at < count; at += 1) this.#settle(request + at, new RequestError(status, text));
    } else if (values === undefined) {
      this.#settle(request, null, value);
    } else {
      values.forEach((each, at) => this.#settle(request + at, null, each));
    }
  }

  /** The hub does not take a message; true if it is one of these. @param {number} first @param {Error} error */
  refuse(first, error) {
    const batch = this.#askers.get(first)?.batch;
    if (batch === undefined) return false;
    batch.askers.forEach((_, at) => this.#settle(first + at, error));
    return true;
  }

  write() {
    for (const text of this.#take()) this.#line.write(text);
  }

  /** What was sent has no answer. */
  lost() {
    this.#fail(new HubError(1006, "connection lost before the answer; the service may have done what was asked"));
  }

  /** @param {Error} error */
  finish(error) {
    this.#fail(error);
    this.#open.clear();
    for (const batch of this.#waiting.splice(0)) this.#drop(batch, error);
    this.size = 0;
  }

  /** @param {Target} target @param {string} text @returns {Promise<any>} */
  #add(target, text) {
    const { topic, timeoutMs, service } = target;
    if (!(timeoutMs > 0 && timeoutMs <= 3_600_000)) throw new TypeError(`timeoutMs is ${timeoutMs}: 1 to 3,600,000`);
    if (this.size + this.#line.bufferedBytes + text.length + OBJECT_BYTES > this.#options.outboundBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#options.outboundBytes})`);
    }
    const key = `${service} ${timeoutMs} ${topic}`;
    let batch = this.#open.get(key);
    if (!batch || batch.texts.length >= REQUESTS || batch.size + text.length > BATCH_CHARACTERS) {
      /** @type {Batch} */
      const made = { target, texts: [], askers: [], size: 0, left: 0, sent: false, endsAt: now() + timeoutMs, first: 0, spared: false };
      made.timer = setTimeout(() => this.#overdue(made), timeoutMs);
      batch = made;
      this.#open.set(key, batch);
      this.#waiting.push(batch);
    }
    /** @type {Deferred<any>} */
    const asker = deferred();
    batch.texts.push(text);
    batch.askers.push(asker);
    batch.left += 1;
    batch.size += text.length + OBJECT_BYTES;
    this.size += text.length + OBJECT_BYTES;
    return asker.promise;
  }

  #take() {
    this.#open.clear();
    const batches = this.#waiting.splice(0);
    this.size = 0;
    return batches.map((batch) => {
      const first = this.#next + batch.texts.length > TRANSACTIONS ? 1 : this.#next;
      this.#next = first + batch.texts.length;
      batch.askers.forEach((asker, at) => this.#askers.set(first + at, { asker, batch }));
      const { topic, service } = batch.target;
      const values = `"values":[${batch.texts.join(",")}]`;
      batch.sent = true;
      batch.first = first;
      batch.texts = [];
      const timeoutMs = Math.max(1, Math.ceil(batch.endsAt - now()));
      const name = `"${service ? "service" : "topic"}":${JSON.stringify(topic)}`;
      return `{"type":"request","request":${first},${name},"timeout_ms":${timeoutMs},${values}}`;
    });
  }

  /** @param {Error} error */
  #fail(error) {
    for (const number of [...this.#askers.keys()]) this.#settle(number, error);
  }

  /** @param {number} number @param {Error | null} error @param {unknown} [value] */
  #settle(number, error, value) {
    const found = this.#askers.get(number);
    if (found === undefined) return; // late
    this.#askers.delete(number);
    found.batch.left -= 1;
    if (found.batch.left === 0) clearTimeout(found.batch.timer);
    found.asker.settle(error, value);
  }

  /** @param {Batch} batch @param {Error} error */
  #drop(batch, error) {
    clearTimeout(batch.timer);
    batch.askers.forEach((asker) => asker.reject(error));
  }

  // The hub keeps the time of what was sent; it is given up only where the hub does not even say that time is up.
  /** @param {Batch} batch */
  #overdue(batch) {
    if (!batch.sent) {
      this.#waiting = this.#waiting.filter((other) => other !== batch);
      for (const [key, open] of this.#open) if (open === batch) this.#open.delete(key);
      this.size -= batch.size;
      this.#drop(batch, new RequestError(TIMED_OUT, "there was no connection in time"));
    } else if (batch.spared) {
      batch.askers.forEach((_, at) => {
        this.#settle(batch.first + at, new RequestError(TIMED_OUT, "the hub has not answered in time"));
      });
    } else {
      batch.spared = true;
      batch.timer = setTimeout(() => this.#overdue(batch), this.#options.answerMs);
    }
  }
}
