/**
 * Whether the hub is still there: asked after a silence, given up without an answer.
 *
 * ```
 * heard ── silenceMs ──▶ ask ── answerMs ──▶ gone        by timestamps: timers of hidden pages come late
 * ```
 *
 * Owner of the state: `Silence`, of one client, for its connection of now. Cost: two numbers for each message that comes.
 */

import { now } from "./waiting.js";

export class Silence {
  #options;
  #ping;
  #gone;
  #receivedAt = 0;
  #pingedAt = 0; // 0: no answer is due
  #spared = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {{silenceMs: number, answerMs: number}} options
   * @param {() => void} ping Asks the hub.
   * @param {(reason: string) => void} gone Called when it has not answered.
   */
  constructor(options, ping, gone) {
    this.#options = options;
    this.#ping = ping;
    this.#gone = gone;
  }

  /** Another connection is made. The attempt counts as a ping: no greeting in time, no connection. */
  begin() {
    this.#spared = false;
    this.#pingedAt = this.#receivedAt = now();
    this.#watch(this.#options.answerMs);
  }

  /** Something has come. */
  heard() {
    this.#receivedAt = now();
    this.#pingedAt = 0;
  }

  /** Ask now, unless an answer is due already. */
  ask() {
    if (this.#pingedAt !== 0) return;
    this.#pingedAt = now();
    this.#spared = false;
    this.#ping();
    this.#watch(this.#options.answerMs);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  /** @param {number} leftMs */
  #watch(leftMs) {
    clearTimeout(this.#timer);
    const delayMs = Math.min(leftMs, this.#options.silenceMs); // an answer in between starts the next silence
    const dueAt = now() + delayMs;
    this.#timer = setTimeout(() => this.#check(now() - dueAt), delayMs);
  }

  /**
   * A late check does not judge: the answer may be queued.
   *
   * @param {number} lateMs
   */
  #check(lateMs) {
    const { silenceMs, answerMs } = this.#options;
    if (this.#pingedAt === 0) {
      const leftMs = this.#receivedAt + silenceMs - now();
      if (leftMs <= 0) this.ask();
      else this.#watch(leftMs);
    } else if (now() < this.#pingedAt + answerMs) {
      this.#watch(this.#pingedAt + answerMs - now());
    } else if (lateMs > answerMs && !this.#spared) {
      this.#spared = true;
      this.#watch(answerMs);
    } else {
      this.#gone(`no answer from the hub for ${answerMs} ms`);
    }
  }
}
