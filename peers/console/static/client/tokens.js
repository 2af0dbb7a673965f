/**
 * What is shown to the hub for who this is: fresh ones of a program's function, for each connection and before one ends.
 *
 * Owner of the state: `Renewal`, the timer of one client. Invariant: a token is asked for at most `answerMs`. Not here: what the hub
 * says to it (`client.js`).
 */

import { HubError } from "./errors.js";
import { now } from "./waiting.js";

/** The hub does not know who this is, or what was shown has ended; who this is, is known, and is not let in. */
export const NOT_RECOGNISED = 4401;
export const FORBIDDEN = 4403;

/** A token is renewed after this part of its time, and up to so much more: a thousand clients do not come together. */
const RENEWED_AFTER = 0.75;
const RENEWED_WITHIN = 0.1;

/** With less left than this nothing is tried again: the next connection brings a fresh token. Milliseconds. */
const LEAST_RENEWAL_MS = 1_000;

/** The longest time that a timer can be set to, milliseconds. */
const TIMER_MS = 2 ** 31 - 1;

/** When a token of a connection that goes on is to be renewed. */
export class Renewal {
  #renew;
  #random;
  #endsAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {() => void} renew Called when it is time.
   * @param {() => number} random
   */
  constructor(renew, random) {
    this.#renew = renew;
    this.#random = random;
  }

  /**
   * What was shown holds for so long.
   *
   * @param {number} seconds
   */
  before(seconds) {
    this.#endsAt = now() + seconds * 1000;
    this.#in(seconds * 1000 * (RENEWED_AFTER + RENEWED_WITHIN * this.#random()));
  }

  /** It has failed: try again after half of what is left. */
  again() {
    const waitMs = (this.#endsAt - now()) / 2;
    if (waitMs >= LEAST_RENEWAL_MS) this.#in(waitMs);
  }

  stop() {
    clearTimeout(this.#timer);
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

/**
 * What the program's function gives. Its own error may hold what it likes, and is the cause alone.
 *
 * @param {() => string | Promise<string>} token
 * @param {number} answerMs How long it may take.
 * @returns {Promise<string>}
 */
export async function freshToken(token, answerMs) {
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

/**
 * What a foreign error is called, and nothing else of it.
 *
 * @param {unknown} error
 */
function nameOf(error) {
  return /** @type {{name?: unknown} | null | undefined} */ (error)?.name ?? typeof error;
}
