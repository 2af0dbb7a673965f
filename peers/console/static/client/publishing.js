/**
 * Publishing: what leaves in which turn, and the receipts that the hub gives for it.
 *
 * Owner of the state: `Publishing`, of one client. Invariant: what is published leaves in the order of the calls, over all topics.
 */

import { assertFits, checkedTopic, jsonOf } from "./checks.js";
import { Outbox } from "./outbox.js";
import { textBeside } from "./rules.js";
import { deferred } from "./waiting.js";

/**
 * @import { Beside, Welcome } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Turn } from "./turn.js"
 * @import { Deferred } from "./waiting.js"
 */

export class Publishing {
  publishedMessages = 0;
  publishedBatches = 0;
  discardedMessages = 0;
  #line;
  #turn;
  #outbox;

  /**
   * @param {number} outboundBytes
   * @param {Line} line
   * @param {Turn} turn
   */
  constructor(outboundBytes, line, turn) {
    this.#line = line;
    this.#turn = turn;
    this.#outbox = new Outbox(outboundBytes);
  }

  /** What waits to be sent, bytes. */
  get size() {
    return this.#outbox.size;
  }

  /**
   * @param {string} topic
   * @param {unknown} value
   * @param {Beside & {confirm?: boolean | "recorded"}} options
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

  lost() {}

  /** @param {Error} error */
  finish(error) {
    this.discardedMessages += this.#outbox.discard(error);
  }
}
