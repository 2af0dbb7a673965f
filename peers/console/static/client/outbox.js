/**
 * What was published and not sent yet.
 *
 * Owner of the state: `Outbox`, of one client. Invariants: values leave in the order of the calls; neighbours of one topic are one
 * message. Bounded in bytes, those in the socket with them. Knows no socket.
 */

import { HubError } from "./errors.js";

/**
 * @import { Deferred } from "./waiting.js"
 *
 * @typedef {object} Batch The one that is open.
 * @property {string} topic
 * @property {string} beside
 * @property {string[]} texts
 * @property {Deferred<any>[]} waiters
 * @property {boolean} recorded
 * @property {number} characters
 *
 * @typedef {object} Frame
 * @property {string} text A publish message without its last brace.
 * @property {Deferred<any>[]} waiters Of its values, if anybody waits.
 * @property {boolean} recorded
 * @property {number} count
 */

/** Text of one publish message before it is cut, characters: large enough to amortise, small enough to share a line. */
export const BATCH_CHARACTERS = 65_536;

/** What a frame or a waiting caller takes beside its text, bytes, roughly. */
export const OBJECT_BYTES = 128;

/** Values on their way out: sealed frames, oldest first, and the open batch; bounded with the bytes in the socket. */
export class Outbox {
  size = 0;
  #limitBytes;
  /** @type {Frame[]} */
  #frames = [];
  /** @type {Batch | null} */
  #batch = null;
  #batchCharacters = BATCH_CHARACTERS;

  /** @param {number} limitBytes */
  constructor(limitBytes) {
    this.#limitBytes = limitBytes;
  }

  /**
   * An eighth of what the hub takes leaves room for characters of three bytes, and for the longest topic.
   *
   * @param {number} frameBytes
   */
  limitBatches(frameBytes) {
    this.#batchCharacters = Math.min(BATCH_CHARACTERS, frameBytes / 8);
  }

  /**
   * @param {{topic: string, beside: string}} target
   * @param {string} text
   * @param {Deferred<any> | null} waiter
   * @param {boolean} recorded
   * @param {number} socketBytes
   */
  add({ topic, beside }, text, waiter, recorded, socketBytes) {
    const cost = text.length + (waiter ? OBJECT_BYTES : 0);
    if (this.size + socketBytes + cost > this.#limitBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#limitBytes})`);
    }
    const batch = this.#batch;
    if (batch && (batch.topic !== topic || batch.beside !== beside || batch.recorded !== recorded
        || batch.characters + text.length > this.#batchCharacters)) {
      this.seal();
    }
    if (this.#batch === null) {
      this.#batch = { topic, beside, texts: [], waiters: [], recorded, characters: 0 };
      this.size += topic.length + beside.length + OBJECT_BYTES;
    }
    this.#batch.texts.push(text);
    this.#batch.characters += text.length + 1;
    if (waiter) this.#batch.waiters.push(waiter);
    this.size += cost;
  }

  /** Ends the open batch: what comes later is a message of its own. */
  seal() {
    if (this.#batch === null) return;
    const { topic, beside, texts, waiters, recorded } = this.#batch;
    const text = `{"type":"publish","topic":${JSON.stringify(topic)}${beside},"values":[${texts.join(",")}]`;
    this.#frames.push({ text, waiters, recorded, count: texts.length });
    this.#batch = null;
  }

  take() {
    const frames = this.#frames;
    this.#frames = [];
    this.size = 0;
    return frames;
  }

  /**
   * Returns how many values are lost.
   *
   * @param {Error} error
   */
  discard(error) {
    this.seal();
    return this.take().reduce((lost, { waiters, count }) => {
      waiters.forEach((waiter) => waiter.reject(error));
      return lost + count;
    }, 0);
  }
}
