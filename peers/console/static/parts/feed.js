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

export class Feed {
  #worker;
  #number = 0; // of the subscription, or of the reading, that is meant
  #listeners;

  /**
   * @param {string | undefined} token What is shown to the hub.
   * @param {Record<string, (told: any) => void>} listeners By what is told: `rows`, `topics`, `fields`, `history`,
   *   `range`, `confirmed`, `dropped`, `problem`, `open`.
   * @param {AbortSignal} signal
   */
  constructor(token, listeners, signal) {
    this.#listeners = listeners;
    this.#worker = new Worker(new URL("./feed_worker.js", import.meta.url), { type: "module", name: "messages" });
    this.#worker.addEventListener("message", ({ data }) => this.#hear(data));
    this.#worker.addEventListener("error", (event) => this.#hear({ kind: "problem", number: this.#number, code: 0, message: event.message }));
    signal.addEventListener("abort", () => this.#worker.terminate(), { once: true });
    this.#say("open", { token });
  }

  /** Follow what comes under a prefix; `labels` are such as messages must bear, `exact` leaves out longer topics. */
  follow({ prefix, labels = [], exact = false, search = "", held = false, withFields = false }) {
    this.#say("follow", { number: (this.#number += 1), prefix, labels, exact, search, held, withFields });
  }

  search(text) {
    this.#say("search", { text });
  }

  hold(held) {
    this.#say("hold", { held });
  }

  /** Follow nothing, and read nothing. */
  stop() {
    this.#number += 1;
    this.#say("stop");
  }

  /** Ask where the journal begins, for a prefix. */
  range(prefix) {
    this.#say("range", { number: this.#number, prefix });
  }

  /** Read the journal from an offset, or from a time (milliseconds since 1970), until there are rows enough. */
  history({ prefix, search = "", offset, at }) {
    this.#number += 1;
    this.#say("stop");
    this.#say("history", { number: this.#number, prefix, search, offset, at });
  }

  #say(command, more = {}) {
    this.#worker.postMessage({ command, ...more });
  }

  #hear({ kind, number, ...told }) {
    if (number !== undefined && number !== this.#number) return;
    this.#listeners[kind]?.(told);
  }
}
