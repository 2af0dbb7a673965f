/**
 * Reading a journal: what is asked of it, piece by piece.
 *
 * Owner of the state: `JournalAccess`, of one client. Invariant: what is not answered is asked again over the next connection.
 */

import { checkedPrefixes } from "./checks.js";
import { goOn, place, recordOf, whose } from "./journal.js";
import { deferred } from "./waiting.js";

/**
 * @import { JournalRecord, ReadOptions } from "../hub.js"
 * @import { Found, Order } from "./journal.js"
 * @import { Line } from "./line.js"
 * @import { Deferred } from "./waiting.js"
 */

export class JournalAccess {
  #line;
  /** @type {Map<number, {order: Order, answer: Deferred<Found>}>} By number. */
  #fetches = new Map();

  /** @param {Line} line */
  constructor(line) {
    this.#line = line;
  }

  /**
   * @param {string | readonly string[]} prefixes
   * @param {ReadOptions} options
   * @returns {AsyncGenerator<JournalRecord, void>}
   */
  async *read(prefixes, { start = 0, startTime, end, hub, columns }) {
    const order = { prefixes: checkedPrefixes(prefixes), ...place(start, startTime), ...whose(hub), columns };
    let last = end;
    for (;;) {
      const found = await this.fetch(last === undefined ? order : { ...order, end: last });
      last ??= found.head;
      for (const record of found.records) yield recordOf(record);
      if (found.next >= last) return;
      goOn(order, found);
    }
  }

  /**
   * @param {Order} order
   * @returns {Promise<Found>}
   */
  fetch(order) {
    this.#line.assertNotClosed();
    /** @type {Deferred<Found>} */
    const answer = deferred();
    const request = this.#line.confirmations.number();
    this.#fetches.set(request, { order, answer });
    if (this.#line.isOpen) this.#line.send({ type: "fetch", request, ...order });
    return answer.promise;
  }

  /** @param {Found & {request: number}} message */
  receive(message) {
    this.#fetches.get(message.request)?.answer.resolve(message);
    this.#fetches.delete(message.request);
  }

  /**
   * The hub does not take a message; true if it is one of these.
   *
   * @param {number} request
   * @param {Error} error
   */
  refuse(request, error) {
    this.#fetches.get(request)?.answer.reject(error);
    return this.#fetches.delete(request);
  }

  opened() {
    for (const [request, { order }] of this.#fetches) this.#line.send({ type: "fetch", request, ...order });
  }

  lost() {}

  /** @param {Error} error */
  finish(error) {
    for (const { answer } of this.#fetches.values()) answer.reject(error);
    this.#fetches.clear();
  }
}
