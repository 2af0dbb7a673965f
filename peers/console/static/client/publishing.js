/** Publishing: values leave in the order of the calls, over all topics; neighbours of one topic are one message. */

import { assertFits, checkedTopic, jsonOf } from "./checks.js";
import { HubError } from "./errors.js";
import { textBeside } from "./subscriptions.js";
import { deferred } from "./waiting.js";

/**
 * @import { Beside, Welcome } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Deferred, Turn } from "./waiting.js"
 * @typedef {{topic: string, beside: string, texts: string[], waiters: Deferred<any>[], recorded: boolean,
 *   characters: number}} Batch
 *   The open batch.
 * @typedef {{text: string, waiters: Deferred<any>[], recorded: boolean, count: number}} Frame
 *   `text`: A publish message without its last brace. `waiters`: Of its values, if the program waits.
 */

/** Text of one publish message before it is cut, characters: large enough to amortise, small enough to share a line. */
export const BATCH_CHARACTERS = 65_536;

/** Memory of a frame or a waiting caller besides its text, bytes, roughly. */
export const OBJECT_BYTES = 128;

/** Values to send: sealed frames, oldest first, and the open batch; limited together with the bytes in the socket. */
export class Publishing {
  publishedMessages = 0;
  publishedBatches = 0;
  discardedMessages = 0;
  /** Bytes that wait to be sent, roughly. */
  size = 0;
  #line;
  #turn;
  #outboundBytes;
  /** @type {Frame[]} */ #frames = [];
  /** @type {Batch | null} */ #batch = null;
  #batchCharacters = BATCH_CHARACTERS;

  /** @param {number} outboundBytes @param {Line} line @param {Turn} turn */
  constructor(outboundBytes, line, turn) {
    this.#outboundBytes = outboundBytes;
    this.#line = line;
    this.#turn = turn;
  }

  /**
   * @param {string} topic @param {unknown} value @param {Beside & {confirm?: boolean | "recorded"}} options
   * @returns {Promise<any> | undefined}
   */
  publish(topic, value, { confirm = false, labels, sender, to }) {
    /** @type {Deferred<any> | null} */
    const waiter = confirm ? deferred() : null;
    try {
      this.#line.assertNotClosed();
      const text = jsonOf(value);
      assertFits(checkedTopic(topic), text, this.#line.welcome?.frame);
      this.#add(topic, textBeside(labels, sender, to), text, waiter, confirm === "recorded");
    } catch (error) {
      if (!confirm) throw error;
      return Promise.reject(error);
    }
    this.publishedMessages += 1;
    this.#turn.schedule();
    return waiter?.promise;
  }

  /** Close the open batch: later values are a message of their own. */
  seal() {
    if (this.#batch === null) return;
    const { topic, beside, texts, waiters, recorded } = this.#batch;
    const text = `{"type":"publish","topic":${JSON.stringify(topic)}${beside},"values":[${texts.join(",")}]`;
    this.#frames.push({ text, waiters, recorded, count: texts.length });
    this.#batch = null;
  }

  write() {
    for (const { text, waiters, recorded } of this.#take()) {
      this.publishedBatches += 1;
      if (waiters.length === 0) {
        this.#line.write(`${text}}`);
        continue;
      }
      const request = this.#line.confirmations.number((error, _lost, { offset }) => waiters.forEach((waiter, at) => {
        waiter.settle(error, recorded ? /** @type {number} */ (offset) + at : undefined);
      }));
      this.#line.write(`${text}${recorded ? ',"confirm":true' : ""},"request":${request}}`);
    }
  }

  // An eighth of the hub's limit leaves room for characters of three bytes, and for the longest topic.
  /** @param {Welcome} welcome */
  opened({ frame }) {
    this.#batchCharacters = Math.min(BATCH_CHARACTERS, frame / 8);
  }

  /** @param {Error} error */
  finish(error) {
    this.seal();
    for (const { waiters, count } of this.#take()) {
      waiters.forEach((waiter) => waiter.reject(error));
      this.discardedMessages += count;
    }
  }

  /** @param {string} topic @param {string} beside @param {string} text @param {Deferred<any> | null} waiter @param {boolean} recorded */
  #add(topic, beside, text, waiter, recorded) {
    const cost = text.length + (waiter ? OBJECT_BYTES : 0);
    if (this.size + this.#line.bufferedBytes + cost > this.#outboundBytes) {
      throw new HubError(1013, `the outbound buffer is full (outboundBytes: ${this.#outboundBytes})`);
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

  #take() {
    this.size = 0;
    return this.#frames.splice(0);
  }
}
