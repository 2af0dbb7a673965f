/** The last ten minutes of the hub, of `$hub/history`: asked whole once, then only for new points and the newest known one. */

/** @import { Figures } from "./services.d.ts" */

export class History {
  #first = 0;
  /** @type {Record<string, (number | null)[]>} By figure, the newest value last. */
  #columns = {};
  #length = 0;
  #step = 1;
  #zero = 0; // when point 0 began, seconds since 1970

  get length() { return this.#length; }

  /** What to ask for next. */
  get question() { return this.#length < 2 ? {} : { after: this.#first + this.#length - 2 }; }

  // Take the hub's answer. One that does not follow what is there, as after a restart of the hub, replaces it.
  /** @param {Figures} answer */
  take({ step_s: step, points, first, figures, now_s: now, clock_s: clock }) {
    const told = Object.values(figures)[0]?.length ?? 0;
    const kept = first - this.#first; // so many of the points that are here stay as they are
    const follows = this.#length > 0 && step === this.#step && kept >= 0 && kept <= this.#length;
    for (const [name, values] of Object.entries(figures)) {
      const before = follows ? (this.#columns[name] ?? []).slice(0, kept) : [];
      this.#columns[name] = [...before, ...values].slice(-points);
    }
    const length = (follows ? kept : 0) + told;
    this.#first = (follows ? this.#first : first) + Math.max(0, length - points);
    this.#length = Math.min(length, points);
    this.#step = step;
    this.#zero = now - clock;
  }

  /** The connection is lost: what comes next may be of another hub. */
  forget() {
    this.#columns = {};
    this.#length = 0;
  }

  /** When each point ended, seconds since 1970. */
  get times() {
    return Array.from({ length: this.#length }, (_, at) => this.#zero + (this.#first + at + 1) * this.#step);
  }

  /** The values of a figure, null where it is not known. @param {string} figure @returns {(number | null)[]} */
  values(figure) {
    return this.#columns[figure] ?? [];
  }

  /** The newest value that is known; null where none is. @param {string} figure */
  newest(figure) {
    return this.values(figure).findLast((value) => value !== null) ?? null;
  }
}
