/**
 * What was answered to requests, and waits to be sent.
 *
 * Owner of the state: `Answers`, of one client. Invariant: what came over a connection that is lost is not answered. Knows no socket.
 */

import { jsonOf } from "./checks.js";
import { FAILED } from "./errors.js";
import { BATCH_CHARACTERS } from "./outbox.js";
import { REQUESTS } from "./requests.js";

/** @import { Service } from "./service.js" */

export class Answers {
  #schedule;
  #report;
  /** @type {{request: number, text: string}[]} */
  #replies = [];
  /** @type {{type: "reply", request: number, status: number, text: string}[]} */
  #failures = [];
  #connection = 0; // answers to what came over an earlier one are thrown away

  /**
   * @param {() => void} schedule
   * @param {(error: unknown) => void} report
   */
  constructor(schedule, report) {
    this.#schedule = schedule;
    this.#report = report;
  }

  /**
   * @param {Service | undefined} service
   * @param {string} topic
   * @param {unknown} value
   * @param {number} request
   */
  ask(service, topic, value, request) {
    if (service === undefined) return this.#fail(request, "this client no longer serves that", this.#connection);
    const connection = this.#connection;
    const put = (/** @type {unknown} */ answer) => this.#put(request, answer, connection);
    const fail = (/** @type {unknown} */ error) => {
      this.#fail(request, String(/** @type {{message?: unknown} | null | undefined} */ (error)?.message ?? error), connection);
      this.#report(error);
    };
    try {
      const answer = service.answer({ topic, value });
      if (isPromise(answer)) return Promise.resolve(answer).then(put).catch(fail);
      put(answer);
    } catch (error) {
      fail(error);
    }
    return undefined;
  }

  /** Returns the messages to be sent now: replies whose numbers follow one another are one. */
  take() {
    const texts = [];
    const replies = this.#replies.splice(0).sort((one, other) => one.request - other.request);
    for (let start = 0, end = 0; start < replies.length; start = end) {
      let size = 0;
      do {
        size += replies[end].text.length;
        end += 1;
      } while (end < replies.length && replies[end].request === replies[end - 1].request + 1
        && end - start < REQUESTS && size + replies[end].text.length <= BATCH_CHARACTERS);
      const values = replies.slice(start, end).map((reply) => reply.text).join(",");
      texts.push(`{"type":"reply","request":${replies[start].request},"values":[${values}]}`);
    }
    for (const failure of this.#failures.splice(0)) texts.push(JSON.stringify(failure));
    return texts;
  }

  /** The connection is lost, and with it whoever asked. */
  forget() {
    this.#connection += 1;
    this.#replies = [];
    this.#failures = [];
  }

  /**
   * @param {number} request
   * @param {unknown} answer
   * @param {number} connection
   */
  #put(request, answer, connection) {
    const text = jsonOf(answer ?? null);
    if (connection !== this.#connection) return;
    this.#replies.push({ request, text });
    this.#schedule();
  }

  /**
   * @param {number} request
   * @param {string} text
   * @param {number} connection
   */
  #fail(request, text, connection) {
    if (connection !== this.#connection) return;
    this.#failures.push({ type: "reply", request, status: FAILED, text });
    this.#schedule();
  }
}

/**
 * @param {unknown} answer
 * @returns {answer is PromiseLike<unknown>}
 */
function isPromise(answer) {
  return typeof (/** @type {PromiseLike<unknown> | null | undefined} */ (answer)?.then) === "function";
}
