/** The token: a text, or a fresh one of a program's function, for each connection and before one expires. */

import { HubError } from "./errors.js";
import { now } from "./waiting.js";

/**
 * @import { Options } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 */

/** The hub does not know who this is, or what was shown has ended; who this is, is known, and is not let in. */
const NOT_RECOGNISED = 4401;
const FORBIDDEN = 4403;

export class TokenSource {
  #token;
  #answerMs;
  #isSpent = false; // the hub did not know the last token, and has not taken another since

  /** @param {Pick<Options, "token"> & {answerMs: number}} options */
  constructor({ token, answerMs }) {
    this.#token = token;
    this.#answerMs = answerMs;
  }

  /** The token that is always the same; undefined where there is none, or a function for it. */
  get lasting() { return typeof this.#token === "function" ? undefined : this.#token; }

  /** A function for tokens gives another one. */
  get isRenewable() { return typeof this.#token === "function"; }

  /** Ask the function for tokens, which there is; rejects where it gives none. */
  fresh() {
    return freshToken(/** @type {() => string | Promise<string>} */ (this.#token), this.#answerMs);
  }

  // Whether the hub would say the same again, which has ended a connection. With a function for tokens, 4401 is worth
  // one more attempt.
  /** @param {number} code */
  isFinal(code) {
    if (code !== NOT_RECOGNISED) return code === FORBIDDEN;
    const isSpent = this.#isSpent || !this.isRenewable;
    this.#isSpent = true;
    return isSpent;
  }

  /** The hub has let us in. */
  recognised() {
    this.#isSpent = false;
  }
}

/**
 * What the program's function gives. Its own error may hold what it likes, and is the cause alone.
 * @param {() => string | Promise<string>} token
 * @param {number} answerMs How long it may take.
 * @returns {Promise<string>}
 */
async function freshToken(token, answerMs) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${answerMs} ms`)), answerMs);
  });
  try {
    const given = await Promise.race([(async () => token())(), late]);
    if (typeof given !== "string") throw new TypeError(`${typeof given}, no string`);
    return given;
  } catch (cause) {
    const error = new HubError(NOT_RECOGNISED, `the function for the token has failed: ${nameOf(cause)}`);
    error.cause = cause;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** What a foreign error is called, and nothing else of it. @param {unknown} error */
function nameOf(error) {
  return /** @type {{name?: unknown} | null | undefined} */ (error)?.name ?? typeof error;
}

// When what was shown to the hub for who this is, is shown afresh: before it ends, over the connection that goes on.

/** A token is renewed after this part of its time, and up to so much more: a thousand clients do not come together. */
const RENEWED_AFTER = 0.75;
const RENEWED_WITHIN = 0.1;

/** With less left than this nothing is tried again: the next connection brings a fresh token. Milliseconds. */
const LEAST_RENEWAL_MS = 1_000;

/** The longest time that a timer can be set to, milliseconds. */
const TIMER_MS = 2 ** 31 - 1;

export class TokenRenewal {
  #source;
  #random;
  #line;
  #reports;
  #endsAt = 0;
  #connection = 0; // what was begun over an earlier one comes too late
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** @param {TokenSource} source @param {() => number} random @param {Line} line @param {Reports} reports */
  constructor(source, random, line, reports) {
    this.#source = source;
    this.#random = random;
    this.#line = line;
    this.#reports = reports;
  }

  /** What was shown holds for so many seconds; undefined for ever. @param {number} [seconds] */
  before(seconds) {
    if (seconds === undefined || !this.#source.isRenewable) return;
    this.#endsAt = now() + seconds * 1000;
    this.#in(seconds * 1000 * (RENEWED_AFTER + RENEWED_WITHIN * this.#random()));
  }

  opened() {}

  lost() {
    this.#connection += 1;
    clearTimeout(this.#timer);
  }

  finish() {
    this.lost();
  }

  #renew() {
    const connection = this.#connection;
    const failed = (/** @type {unknown} */ error) => {
      if (connection !== this.#connection) return;
      this.#reports.report(error);
      this.#again();
    };
    this.#source.fresh().then((token) => {
      if (connection !== this.#connection) return;
      this.#line.ask({ type: "token", token }, (error, lost, { until }) => {
        if (lost) return;
        if (error === null) this.before(until);
        else failed(error);
      });
    }, failed);
  }

  /** It has failed: try again after half of what is left. */
  #again() {
    const waitMs = (this.#endsAt - now()) / 2;
    if (waitMs >= LEAST_RENEWAL_MS) this.#in(waitMs);
  }

  /** @param {number} delayMs */
  #in(delayMs) {
    clearTimeout(this.#timer);
    const stepMs = Math.min(delayMs, TIMER_MS);
    this.#timer = setTimeout(() => {
      if (stepMs < delayMs) this.#in(delayMs - stepMs);
      else this.#renew();
    }, stepMs);
  }
}
