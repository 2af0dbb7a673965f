/** Publishing: values leave in the order of the calls, over all topics; neighbours of one topic are one message. */

import { assertFits, checkedTopic, jsonOf } from "./checks.js";
import { HubError } from "./errors.js";
import { textBeside } from "./subscriptions.js";
import { deferred } from "./waiting.js";

/**
 * @import { Beside, Welcome } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Deferred, Turn } from "./waiting.js"
 */

export class Publishing {
  publishedMessages = 0;
  publishedBatches = 0;
  discardedMessages = 0;
  #line;
  #turn;
  #outbox;

  /** @param {number} outboundBytes @param {Line} line @param {Turn} turn */
  constructor(outboundBytes, line, turn) {
    this.#line = line;
    this.#turn = turn;
    this.#outbox = new Outbox(outboundBytes);
  }

  /** What waits to be sent, bytes. */
  get size() { return this.#outbox.size; }

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
      const beside = textBeside(labels, sender, to);
      this.#outbox.add({ topic, beside }, text, waiter, confirm === "recorded", this.#line.bufferedBytes);
    } catch (error) {
      if (!confirm) throw error;
      return Promise.reject(error);
    }
    this.publishedMessages += 1;
    this.#turn.schedule();
    return waiter?.promise;
  }

  /** This turn is over: what comes later is a message of its own. */
  seal() {
    this.#outbox.seal();
  }

  write() {
    for (const { text, waiters, recorded } of this.#outbox.take()) {
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

  /** @param {Welcome} welcome */
  opened(welcome) {
    this.#outbox.limitBatches(welcome.frame);
  }

  /** @param {Error} error */
  finish(error) {
    this.discardedMessages += this.#outbox.discard(error);
  }
}

// What was published and not sent yet.

/**
 * @typedef {{topic: string, beside: string, texts: string[], waiters: Deferred<any>[], recorded: boolean,
 *   characters: number}} Batch
 *   The one that is open.
 * @typedef {{text: string, waiters: Deferred<any>[], recorded: boolean, count: number}} Frame
 *   `text`: A publish message without its last brace. `waiters`: Of its values, if anybody waits.
 */

/** Text of one publish message before it is cut, characters: large enough to amortise, small enough to share a line. */
export const BATCH_CHARACTERS = 65_536;

/** What a frame or a waiting caller takes beside its text, bytes, roughly. */
export const OBJECT_BYTES = 128;

/** Values on their way out: sealed frames, oldest first, and the open batch; bounded with the bytes in the socket. */
class Outbox {
  size = 0;
  #limitBytes;
  /** @type {Frame[]} */ #frames = [];
  /** @type {Batch | null} */ #batch = null;
  #batchCharacters = BATCH_CHARACTERS;

  /** @param {number} limitBytes */
  constructor(limitBytes) {
    this.#limitBytes = limitBytes;
  }

  // An eighth of what the hub takes leaves room for characters of three bytes, and for the longest topic.
  /** @param {number} frameBytes */
  limitBatches(frameBytes) {
    this.#batchCharacters = Math.min(BATCH_CHARACTERS, frameBytes / 8);
  }

  /**
   * @param {{topic: string, beside: string}} target @param {string} text @param {Deferred<any> | null} waiter
   * @param {boolean} recorded @param {number} socketBytes
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

  /** Returns how many values are lost. @param {Error} error */
  discard(error) {
    this.seal();
    return this.take().reduce((lost, { waiters, count }) => {
      waiters.forEach((waiter) => waiter.reject(error));
      return lost + count;
    }, 0);
  }
}
