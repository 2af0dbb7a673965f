/**
 * How long a client waits before it dials again.
 *
 * Owner of the state: `Backoff`, the attempts of one client and its timer.
 */

/** @import { Backoff as Bounds } from "../hub.js" */

/** A connection that lived this long was a good one: the backoff starts from its base again, milliseconds. */
const SETTLED_MS = 5_000;

/** Until a client has waited so long since its last good connection, it waits for the other at most at a time, if not for its base. */
const EARLY_MS = 60_000;
const EARLY_CAP_MS = 5_000;

/** Codes of a hub that may say when to come back: it stops, or is full. */
const NOT_NOW = [1001, 1013];

/** Nobody waits longer than this because a hub has asked for it, milliseconds. */
const RETRY_MS = 3_600_000;

/** Full jitter: anything between nothing and the doubling bound, so that a thousand clients do not return as one. */
export class Backoff {
  #bounds;
  #attempts = 0;
  #waitedMs = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {Required<Bounds>} bounds */
  constructor(bounds) {
    this.#bounds = bounds;
  }

  /**
   * Call `dial` in time, and return in how many milliseconds that is.
   *
   * @param {() => void} dial
   * @param {number | null} [askedMs] How long the hub asks to wait.
   */
  wait(dial, askedMs = null) {
    const { baseMs, capMs, random } = this.#bounds;
    const mostMs = this.#waitedMs >= EARLY_MS ? capMs : Math.min(capMs, Math.max(EARLY_CAP_MS, baseMs));
    const delayMs = askedMs ?? random() * Math.min(mostMs, baseMs * 2 ** this.#attempts);
    if (askedMs === null) {
      this.#attempts += 1;
      this.#waitedMs += delayMs;
    }
    this.#timer = setTimeout(dial, delayMs);
    return delayMs;
  }

  /**
   * A connection has ended that was there for so long.
   *
   * @param {number} ms
   */
  lived(ms) {
    if (ms >= SETTLED_MS) this.#attempts = this.#waitedMs = 0;
  }

  /** Wait no longer; the next wait is as the first one. */
  restart() {
    this.stop();
    this.#attempts = this.#waitedMs = 0;
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

/**
 * How long a hub asks to wait before coming back, milliseconds; null if the reason of its close does not say so.
 *
 * @param {number} code
 * @param {string} reason
 */
export function retryAfterMs(code, reason) {
  const found = NOT_NOW.includes(code) ? /; retry after (\d{1,6}(?:\.\d{1,3})?) s$/.exec(reason) : null;
  return found && Math.min(Number(found[1]) * 1_000, RETRY_MS);
}
