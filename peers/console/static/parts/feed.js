/**
 * `Feed`: follows messages in a thread (`feed_worker.js`), and reads the journal there.
 *
 * ```
 * page ── follow, search, hold, stop, range, history ──▶ thread ══ a connection of its own ══▶ hub
 *      ◀── rows, topics, fields, history, range, confirmed, dropped, problem ──
 * ```
 *
 * The page gets 1,000 rows a second at most; the queue of this connection in the hub is its own.
 */

import { words } from "../words.js";

/**
 * @import { Field, Row, Top } from "./sampler.js"
 * @typedef {{at?: number, offset?: number}} From Where in the journal: a time, milliseconds since 1970, or an offset.
 * @typedef {{number: number, prefix: string, labels: string[], exact: boolean, search: string, held: boolean,
 *   withFields: boolean}} Followed
 *   `labels`: Such as messages must bear. `exact`: Whether longer topics are left out.
 * @typedef {{open: {token: string | undefined}, follow: Followed, stop: {}, hold: {held: boolean},
 *   range: {number: number, prefix: string},
 *   history: {number: number, prefix: string, search: string} & From}} Commands
 *   What the page says.
 * @typedef {{offset: number, at: number} | null} Oldest The oldest record; null where there is none.
 * @typedef {{code: number, message: string, first?: number}} Problem
 *   `code`: 0 where there is none. `first`: The oldest offset, where what was asked for was deleted.
 * @typedef {{open: {}, confirmed: {}, rows: {rows: Row[], received: number, matched: number, taken: number},
 *   topics: Top, fields: {fields: Field[], values: number, leftOut: number},
 *   history: {rows: Row[], looked: number, next: number | null, more: boolean}, range: {oldest: Oldest},
 *   dropped: {count: number}, problem: Problem}} Told
 *   What the thread says.
 * @typedef {{[Kind in keyof Told]?: (told: Told[Kind]) => void}} Listeners
 */

/**
 * @template {keyof Told} Kind
 * @typedef {{kind: Kind, number?: number, told: Told[Kind]}} Message
 *   How it travels. `number`: Of the subscription, or the reading, that it is of.
 */

/** A thread that could not be loaded, as the hub is away, is loaded again after so many milliseconds. */
const AGAIN_MS = 1_000;

export class Feed {
  /** @type {Worker} */ #worker;
  /** @type {object[] | null} What was said before the thread has said anything; null since. */
  #said = [];
  #signal;
  #number = 0; // of the subscription, or of the reading, that is meant
  #listeners;

  /**
   * @param {string | undefined} token Sent to the hub.
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

  /** Ask where the journal begins, for a prefix. @param {string} prefix */
  range(prefix) {
    this.#say("range", { number: this.#number, prefix });
  }

  // Read the journal from an offset, or from a time (milliseconds since 1970), until there are rows enough.
  /** @param {{prefix: string, search?: string} & From} what */
  history({ prefix, search = "", offset, at }) {
    this.#number += 1;
    this.#say("stop", {});
    this.#say("history", { number: this.#number, prefix, search, offset, at });
  }

  /**
   * @template {keyof Commands} Command
   * @param {Command} command @param {Commands[Command]} said
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
