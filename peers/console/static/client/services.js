/**
 * Who answers the requests that the hub passes on, and what the hub is told of that.
 *
 * Owner of the state: `Services`, of one client. Invariant: the longest prefix answers.
 */

import { Answers } from "./answers.js";
import { checkedPrefixes } from "./checks.js";
import { TRANSACTIONS } from "./requests.js";
import { Service } from "./service.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { Message } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { Turn } from "./turn.js"
 *
 * @typedef {object} Asked A request of a hub, or several in a row.
 * @property {number} request
 * @property {string} [topic]
 * @property {string} [service]
 * @property {unknown} [value]
 * @property {unknown[]} [values]
 */

export class Services {
  #line;
  #turn;
  #reports;
  #answers;
  /** @type {Set<Service>} */
  #all = new Set();

  /**
   * @param {Line} line
   * @param {Turn} turn
   * @param {Reports} reports
   */
  constructor(line, turn, reports) {
    this.#line = line;
    this.#turn = turn;
    this.#reports = reports;
    this.#answers = new Answers(() => turn.schedule(), (error) => reports.report(error));
  }

  /**
   * @param {string | readonly string[]} prefixes
   * @param {(request: Message) => unknown} answer
   */
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
    (values ?? [value]).forEach((each, at) => this.#answers.ask(found, target, each, (request + at) % TRANSACTIONS));
  }

  write() {
    for (const text of this.#answers.take()) this.#line.write(text);
  }

  opened() {
    for (const service of this.#all) this.#tell(service);
  }

  lost() {
    this.#answers.forget();
  }

  /** @param {Error} error */
  finish(error) {
    this.#answers.forget();
    for (const service of this.#all) service.confirmedBy(error);
    this.#all.clear();
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

  /**
   * @param {Service} service
   * @returns {Promise<void>}
   */
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

  /**
   * The longest prefix wins, as in the hub.
   *
   * @param {string} topic
   * @returns {Service | undefined}
   */
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
