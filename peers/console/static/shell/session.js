/**
 * The one connection of the page, and the rights of its user, which are asked again with each connection. They are null where
 * a hub does not tell them: then views ask, and may be refused.
 */

import { connect } from "../hub.js";
import { FORBIDDEN, NOT_RECOGNISED } from "./sign_in.js";

/**
 * @import { RequestOptions, Welcome } from "../hub.js"
 * @import { Answers, Rights, ServiceTopic } from "../feeds/services.d.ts"
 */

const RIGHTS_TOPIC = "$hub/rights";

/**
 * What somebody may do of whom nothing is known but that the hub has let him in: try.
 * @type {Rights}
 */
const UNTOLD = { user: "", roles: [], admin: false, may: ["publish", "subscribe"], asks: [], hears: [] };

/** A hub that does not answer this at once will not, milliseconds. */
const ANSWER_MS = 5_000;

export class Session {
  /** @type {Welcome | null} The hub's greeting; null before the first. */
  welcome = null;
  /** @type {Rights | null} What one may do, as `$hub/rights` tells it; null before the hub has. */
  rights = null;
  /** When the next attempt to connect is made, of the page's clock, milliseconds. */
  retryAt = 0;
  /** @type {Set<() => void>} */ #listeners = new Set();

  /** @param {string | undefined} token What is shown to the hub. */
  constructor(token) {
    this.token = token;
    // Narrow: whoever may see a part of what flows here sees that part, and of the hub's own figures what he may.
    this.client = connect("/", { name: "console", token, narrow: true });
    this.client.on("open", (welcome) => {
      this.welcome = welcome;
      this.#findRights();
    });
    this.client.on("error", (error) => {
      const code = "code" in error ? error.code : 0;
      if (code !== NOT_RECOGNISED && code !== FORBIDDEN) console.error(error); // those the sign-in shows
    });
    this.client.on("reconnecting", (delayMs) => {
      this.retryAt = performance.now() + delayMs;
    });
  }

  get state() { return this.client.statistics().state; }

  get isOpen() { return this.state === "open"; }

  // Whether the hub itself would answer this.
  /** @param {string} topic */
  mayAsk(topic) {
    return this.rights !== null && this.rights.asks.includes(topic);
  }

  // Whether one of the hub's own topics may be heard.
  /** @param {string} topic */
  mayHear(topic) {
    return this.rights !== null && this.rights.hears.includes(topic);
  }

  // Whether an action is granted for anything at all: publish, subscribe, request, serve, claim, journal.
  /** @param {string} action */
  may(action) {
    return this.rights !== null && this.rights.may.includes(action);
  }

  // Call `act` now if one is connected and the rights are known, and each time that this is so again.
  /** @param {() => void} act @param {AbortSignal} [signal] */
  onReady(act, signal) {
    this.#listeners.add(act);
    signal?.addEventListener("abort", () => this.#listeners.delete(act), { once: true });
    if (this.rights !== null && this.isOpen) act();
  }

  /**
   * Ask the hub itself. Rejects as `client.request` does.
   * @template {ServiceTopic} Topic
   * @param {Topic} topic
   * @param {object | null} question
   * @param {RequestOptions} [options]
   * @returns {Promise<Answers[Topic]>}
   */
  ask(topic, question, options) {
    return this.client.request(topic, question, options);
  }

  async #findRights() {
    let rights = UNTOLD;
    try {
      rights = await this.ask(RIGHTS_TOPIC, null, { timeoutMs: ANSWER_MS });
    } catch {
      if (!this.isOpen) return; // the connection has gone: the next one asks again
    }
    this.rights = rights;
    for (const act of [...this.#listeners]) act();
  }
}
