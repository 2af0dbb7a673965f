/** The token: a text, or a function of the program that returns a fresh one for each connection and before one expires. */

import { HubError } from "./errors.js";
import { now } from "./waiting.js";

/**
 * @import { Settle, Settled } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @typedef {(token: string, settle: Settle) => void} Renew Sends a fresh token to the hub.
 */

/** Close codes: no valid token, or one that has expired; a user without the right to connect. */
const NOT_RECOGNISED = 4401;
const FORBIDDEN = 4403;

/** A token is renewed after this part of its time, and up to so much more: a thousand clients do not renew at once. */
const RENEWED_AFTER = 0.75;
const RENEWED_WITHIN = 0.1;

/** With less time left a failed renewal is not tried again: the next connection gets a fresh token. Milliseconds. */
const LEAST_RENEWAL_MS = 1_000;

/** The longest delay of a timer, milliseconds. */
const TIMER_MS = 2 ** 31 - 1;

export class Tokens {
  #options;
  #reports;
  #isSpent = false; // the hub rejected the last token, and has not accepted another since
  #endsAt = 0;
  #connection = 0; // a renewal of an earlier one is ignored
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** @param {Settled} options @param {Reports} reports */
  constructor(options, reports) {
    this.#options = options;
    this.#reports = reports;
  }

  /** The constant token; undefined without one, or with a function. */
  get lasting() { return typeof this.#options.token === "function" ? undefined : this.#options.token; }

  get isRenewable() { return typeof this.#options.token === "function"; }

  /** Call the function for tokens, within `answerMs`. Its error may contain secrets, and is only the cause. */
  async fresh() {
    const { token, answerMs } = this.#options;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing within ${answerMs} ms`)), answerMs);
    });
    try {
      const given = await Promise.race([(async () => /** @type {() => string | Promise<string>} */ (token)())(), late]);
      if (typeof given !== "string") throw new TypeError(`${typeof given}, no string`);
      return given;
    } catch (cause) {
      const name = /** @type {{name?: unknown} | null | undefined} */ (cause)?.name ?? typeof cause;
      const error = new HubError(NOT_RECOGNISED, `the function for the token has failed: ${name}`);
      error.cause = cause;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Whether a new attempt would end with this close code again. With a function, 4401 gets one more. @param {number} code */
  isFinal(code) {
    if (code !== NOT_RECOGNISED) return code === FORBIDDEN;
    const isSpent = this.#isSpent || !this.isRenewable;
    this.#isSpent = true;
    return isSpent;
  }

  /** The hub accepted the token, for so many seconds; undefined for ever. @param {number | undefined} seconds @param {Renew} renew */
  granted(seconds, renew) {
    this.#isSpent = false;
    if (seconds === undefined || !this.isRenewable) return;
    this.#endsAt = now() + seconds * 1000;
    this.#in(seconds * 1000 * (RENEWED_AFTER + RENEWED_WITHIN * this.#options.backoff.random()), renew);
  }

  lost() {
    this.#connection += 1;
    clearTimeout(this.#timer);
  }

  finish() {
    this.lost();
  }

  /** @param {Renew} renew */
  #renew(renew) {
    const connection = this.#connection;
    const failed = (/** @type {unknown} */ error) => {
      if (connection !== this.#connection) return;
      this.#reports.report(error);
      const waitMs = (this.#endsAt - now()) / 2; // again after half of the time that is left
      if (waitMs >= LEAST_RENEWAL_MS) this.#in(waitMs, renew);
    };
    this.fresh().then((token) => {
      if (connection !== this.#connection) return;
      renew(token, (error, lost, { until }) => {
        if (lost) return;
        if (error === null) this.granted(until, renew);
        else failed(error);
      });
    }, failed);
  }

  /** @param {number} delayMs @param {Renew} renew */
  #in(delayMs, renew) {
    clearTimeout(this.#timer);
    const stepMs = Math.min(delayMs, TIMER_MS);
    this.#timer = setTimeout(() => {
      if (stepMs < delayMs) this.#in(delayMs - stepMs, renew);
      else this.#renew(renew);
    }, stepMs);
  }
}
