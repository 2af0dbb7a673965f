/** Services: the longest prefix answers. A request of a connection that is lost is not answered. */

import { checkedPrefixes, jsonOf } from "./checks.js";
import { FAILED } from "./errors.js";
import { BATCH_CHARACTERS } from "./publishing.js";
import { REQUESTS, TRANSACTIONS } from "./requests.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { Message } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Turn } from "./waiting.js"
 */

/**
 * @typedef {{request: number, topic?: string, service?: string, value?: unknown, values?: unknown[]}} Asked
 *   A request of a hub, or several in a row.
 */

export class Services {
  #line;
  #turn;
  #reports;
  /** @type {Set<Service>} */ #all = new Set();
  /** @type {{request: number, text: string}[]} */ #replies = [];
  /** @type {{type: "reply", request: number, status: number, text: string}[]} */ #failures = [];
  #connection = 0; // answers to requests of an earlier one are thrown away

  /** @param {Line} line @param {Turn} turn @param {Reports} reports */
  constructor(line, turn, reports) {
    this.#line = line;
    this.#turn = turn;
    this.#reports = reports;
  }

  /** @param {string | readonly string[]} prefixes @param {(request: Message) => unknown} answer */
  serve(prefixes, answer) {
    this.#line.assertNotClosed();
    const service = new Service(checkedPrefixes(prefixes), answer, (it) => this.#close(it));
    for (const prefix of service.prefixes) {
      if (this.#find(prefix)?.prefixes.includes(prefix)) throw new TypeError(`this client serves ${prefix} already`);
    }
    this.#all.add(service);
    if (this.#line.isOpen) this.#tell(service);
    return service;
  }

  /** @param {Asked} asked */
  receive({ request, topic, service, value, values }) {
    const target = topic ?? service ?? "";
    const found = this.#find(target);
    (values ?? [value]).forEach((each, at) => this.#ask(found, target, each, (request + at) % TRANSACTIONS));
  }

  // Replies whose numbers follow one another are one message.
  write() {
    const replies = this.#replies.splice(0).sort((one, other) => one.request - other.request);
    for (let start = 0, end = 0; start < replies.length; start = end) {
      let size = 0;
      do {
        size += replies[end].text.length;
        end += 1;
      } while (end < replies.length && replies[end].request === replies[end - 1].request + 1
        && end - start < REQUESTS && size + replies[end].text.length <= BATCH_CHARACTERS);
      const values = replies.slice(start, end).map((reply) => reply.text).join(",");
      this.#line.write(`{"type":"reply","request":${replies[start].request},"values":[${values}]}`);
    }
    for (const failure of this.#failures.splice(0)) this.#line.send(failure);
  }

  opened() {
    for (const service of this.#all) this.#tell(service);
  }

  /** The connection is lost, and with it the requesters. */
  lost() {
    this.#connection += 1;
    this.#replies = [];
    this.#failures = [];
  }

  /** @param {Error} error */
  finish(error) {
    this.lost();
    for (const service of this.#all) service.confirmedBy(error);
    this.#all.clear();
  }

  /** @param {Service | undefined} service @param {string} topic @param {unknown} value @param {number} request */
  #ask(service, topic, value, request) {
    if (service === undefined) return this.#fail(request, "this client no longer serves that");
    const connection = this.#connection;
    const put = (/** @type {unknown} */ answer) => {
      const text = jsonOf(answer ?? null);
      if (connection !== this.#connection) return;
      this.#replies.push({ request, text });
      this.#turn.schedule();
    };
    const fail = (/** @type {unknown} */ error) => {
      const text = String(/** @type {{message?: unknown} | null | undefined} */ (error)?.message ?? error);
      if (connection === this.#connection) this.#fail(request, text);
      this.#reports.report(error);
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

  /** @param {number} request @param {string} text */
  #fail(request, text) {
    this.#failures.push({ type: "reply", request, status: FAILED, text });
    this.#turn.schedule();
  }

  /** @param {Service} service */
  #tell(service) {
    this.#line.ask({ type: "serve", prefixes: service.prefixes }, (error, lost) => {
      if (lost) return;
      service.confirmedBy(error);
      if (error === null) return;
      this.#all.delete(service);
      this.#reports.report(error);
    });
  }

  /** @param {Service} service @returns {Promise<void>} */
  #close(service) {
    if (!this.#all.has(service) || !this.#line.isOpen) {
      this.#all.delete(service);
      return Promise.resolve();
    }
    this.#turn.flush();
    const done = handled(deferred());
    this.#line.ask({ type: "unserve", prefixes: service.prefixes }, (error, lost) => {
      this.#all.delete(service); // until now the hub could have sent it requests
      done.settle(lost ? null : error);
    });
    return done.promise;
  }

  /** The longest prefix wins, as in the hub. @param {string} topic @returns {Service | undefined} */
  #find(topic) {
    let found;
    let length = -1;
    for (const service of this.#all) {
      for (const prefix of service.prefixes) {
        if (prefix.length > length && topic.startsWith(prefix)) [found, length] = [service, prefix.length];
      }
    }
    return found;
  }
}

/** What `serve` returns. */
export class Service {
  #close;
  #confirmed = handled(deferred());

  /**
   * @param {string[]} prefixes @param {(request: Message) => unknown} answer
   * @param {(service: Service) => Promise<void>} close
   */
  constructor(prefixes, answer, close) {
    this.prefixes = Object.freeze(prefixes);
    this.answer = answer;
    this.#close = close;
  }

  /** A promise that the hub has taken it: it stays open while there is no connection. */
  get confirmed() { return this.#confirmed.promise; }

  /** Serve no longer; resolves when the hub sends nothing more. What runs is still answered. */
  close() {
    return this.#close(this);
  }

  /** @param {Error | null} error */
  confirmedBy(error) {
    this.#confirmed.settle(error);
  }
}

/** @param {unknown} answer @returns {answer is PromiseLike<unknown>} */
function isPromise(answer) {
  return typeof (/** @type {PromiseLike<unknown> | null | undefined} */ (answer)?.then) === "function";
}
