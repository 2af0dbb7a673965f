/**
 * `Feed`: follows messages in a thread of its own (`feed_worker.js`), and reads the journal there.
 *
 * ```
 * page ── follow, search, hold, stop, range, history ──▶ thread ══ a connection of its own ══▶ hub
 *      ◀── rows, topics, fields, history, range, confirmed, dropped, problem ──
 * ```
 *
 * Whatever is asked for anew takes the place of what was asked for before; what is still told of that is left out.
 *
 * Owner of the state: `Feed`; `signal` is that of the view, and ends the thread. Cost for the page: 1,000 rows a second at
 * most, whatever the rate; the queue of this connection in the hub is its own, so that nobody else loses anything by it.
 */

import { words } from "../words.js";

/**
 * @import { Field } from "./fields.js"
 * @import { Row } from "./sampler.js"
 * @import { Top } from "./topic_counts.js"
 *
 * @typedef {{at?: number, offset?: number}} From Where in the journal: a time, milliseconds since 1970, or an offset.
 *
 * @typedef {object} Followed
 * @property {number} number
 * @property {string} prefix
 * @property {string[]} labels Such as messages must bear.
 * @property {boolean} exact Whether longer topics are left out.
 * @property {string} search
 * @property {boolean} held
 * @property {boolean} withFields
 *
 * @typedef {object} Commands What the page says.
 * @property {{token: string | undefined}} open
 * @property {Followed} follow
 * @property {{}} stop
 * @property {{held: boolean}} hold
 * @property {{number: number, prefix: string}} range
 * @property {{number: number, prefix: string, search: string} & From} history
 *
 * @typedef {{offset: number, at: number} | null} Oldest The oldest record; null where there is none.
 *
 * @typedef {object} Problem
 * @property {number} code 0 where there is none.
 * @property {string} message
 * @property {number} [first] The oldest offset, where what was asked for was deleted.
 *
 * @typedef {object} Told What the thread says.
 * @property {{}} open
 * @property {{}} confirmed
 * @property {{rows: Row[], received: number, matched: number, taken: number}} rows
 * @property {Top} topics
 * @property {{fields: Field[], values: number, leftOut: number}} fields
 * @property {{rows: Row[], looked: number, next: number | null, more: boolean}} history
 * @property {{oldest: Oldest}} range
 * @property {{count: number}} dropped
 * @property {Problem} problem
 *
 * @typedef {{[Kind in keyof Told]?: (told: Told[Kind]) => void}} Listeners
 */

/**
 * @template {keyof Told} Kind
 * @typedef {object} Message How it travels.
 * @property {Kind} kind
 * @property {number} [number] Of the subscription, or the reading, that it is of.
 * @property {Told[Kind]} told
 */

/** A thread that could not be loaded, as the hub is away, is loaded again after so many milliseconds. */
const AGAIN_MS = 1_000;

export class Feed {
  /** @type {Worker} */
  #worker;
  /** @type {object[] | null} What was said before the thread has said anything; null since. */
  #said = [];
  #signal;
  #number = 0; // of the subscription, or of the reading, that is meant
  #listeners;

  /**
   * @param {string | undefined} token What is shown to the hub.
   * @param {Listeners} listeners By what is told.
   * @param {AbortSignal} signal
   */
  constructor(token, listeners, signal) {
    this.#listeners = listeners;
    this.#signal = signal;
    this.#worker = this.#load();
    signal.addEventListener("abort", () => this.#worker.terminate(), { once: true });
    this.#say("open", { token });
  }

  #load() {
    const worker = new Worker(new URL("./feed_worker.js", import.meta.url), { type: "module", name: "messages" });
    worker.addEventListener("message", ({ data }) => {
      this.#said = null;
      this.#hear(data);
    });
    worker.addEventListener("error", (event) => {
      const isLoaded = event instanceof ErrorEvent; // one that is not loaded has an event without a message
      this.#hear({ kind: "problem", number: this.#number, told: { code: 0, message: isLoaded ? event.message : words.shell.away } });
      if (!isLoaded && !this.#signal.aborted) setTimeout(() => this.#reload(), AGAIN_MS);
    });
    return worker;
  }

  #reload() {
    if (this.#signal.aborted) return;
    this.#worker = this.#load();
    for (const said of this.#said ?? []) this.#worker.postMessage(said);
  }

  /**
   * Follow what comes under a prefix; `labels` are such as messages must bear, `exact` leaves out longer topics.
   *
   * @param {{prefix: string, labels?: string[], exact?: boolean, search?: string, held?: boolean, withFields?: boolean}} what
   */
  follow({ prefix, labels = [], exact = false, search = "", held = false, withFields = false }) {
    this.#say("follow", { number: (this.#number += 1), prefix, labels, exact, search, held, withFields });
  }

  /** @param {boolean} held */
  hold(held) {
    this.#say("hold", { held });
  }

  /** Follow nothing, and read nothing. */
  stop() {
    this.#number += 1;
    this.#say("stop", {});
  }

  /**
   * Ask where the journal begins, for a prefix.
   *
   * @param {string} prefix
   */
  range(prefix) {
    this.#say("range", { number: this.#number, prefix });
  }

  /**
   * Read the journal from an offset, or from a time (milliseconds since 1970), until there are rows enough.
   *
   * @param {{prefix: string, search?: string} & From} what
   */
  history({ prefix, search = "", offset, at }) {
    this.#number += 1;
    this.#say("stop", {});
    this.#say("history", { number: this.#number, prefix, search, offset, at });
  }

  /**
   * @template {keyof Commands} Command
   * @param {Command} command
   * @param {Commands[Command]} said
   */
  #say(command, said) {
    this.#worker.postMessage({ command, said });
    this.#said?.push({ command, said });
  }

  /**
   * @template {keyof Told} Kind
   * @param {Message<Kind>} told
   */
  #hear({ kind, number, told }) {
    if (number !== undefined && number !== this.#number) return;
    this.#listeners[kind]?.(told);
  }
}
