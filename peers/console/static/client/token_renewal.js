/**
 * When what was shown to the hub for who this is, is shown afresh: before it ends, over the connection that goes on.
 *
 * Owner of the state: `TokenRenewal`, the timer of one client.
 */

import { now } from "./waiting.js";

/**
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 * @import { TokenSource } from "./token_source.js"
 */

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
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {TokenSource} source
   * @param {() => number} random
   * @param {Line} line
   * @param {Reports} reports
   */
  constructor(source, random, line, reports) {
    this.#source = source;
    this.#random = random;
    this.#line = line;
    this.#reports = reports;
  }

  /**
   * What was shown holds for so many seconds; undefined for ever.
   *
   * @param {number} [seconds]
   */
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
