/**
 * What is shown to the hub for who this is: a text, or a fresh one of a program's function, for each connection and before one ends.
 *
 * Owner of the state: `TokenSource`, of one client. Invariant: a token is asked for at most `answerMs`. Not here: when one is renewed
 * (`token_renewal.js`).
 */

import { HubError } from "./errors.js";

/** @import { Options } from "../hub.js" */

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
  get lasting() {
    return typeof this.#token === "function" ? undefined : this.#token;
  }

  /** A function for tokens gives another one. */
  get isRenewable() {
    return typeof this.#token === "function";
  }

  /** Ask the function for tokens, which there is; rejects where it gives none. */
  fresh() {
    return freshToken(/** @type {() => string | Promise<string>} */ (this.#token), this.#answerMs);
  }

  /**
   * Whether the hub would say the same again, which has ended a connection. With a function for tokens, 4401 is worth one more attempt.
   *
   * @param {number} code
   */
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
 *
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

/**
 * What a foreign error is called, and nothing else of it.
 *
 * @param {unknown} error
 */
function nameOf(error) {
  return /** @type {{name?: unknown} | null | undefined} */ (error)?.name ?? typeof error;
}
