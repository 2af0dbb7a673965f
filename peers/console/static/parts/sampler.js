/**
 * `Sampler`: some of what comes, as much as can be read, and how much there was beside it.
 *
 * ```
 * 50,000/s ── add ──▶ the newest since the last time ── take ──▶ rows: BURST at once, ROWS_PER_S in the long run
 *                                                          └──▶ `received`, `matched`: all are counted
 * ```
 *
 * What is taken are the newest, in one piece, as they came behind one another: so one sees what follows what, where every
 * fiftieth would show neither. Up to `BURST` messages that come at once are all taken.
 *
 * Owner of the state: `Sampler`. Bounded: it holds `BURST` messages at most, and only until they are taken, ten times a
 * second; a row has `ROW_CHARACTERS` at most, rows together `CHARACTERS_PER_S`. Cost: a slot of a ring a message; with a
 * search, its JSON text, too. No clock: times are arguments, milliseconds.
 */

/**
 * @typedef {object} Sampled A message, and when it came, or was recorded.
 * @property {string} topic
 * @property {any} value
 * @property {number} at Milliseconds since 1970.
 * @property {number} [offset] In the journal.
 * @property {readonly string[]} [labels]
 * @property {string} [sender]
 * @property {string} [to]
 *
 * @typedef {object} Row What is shown of it.
 * @property {string} topic
 * @property {string} text Of its value, as JSON; cut if it is not `whole`.
 * @property {boolean} whole
 * @property {number} characters Of the whole text.
 * @property {number} at
 * @property {number} [offset]
 * @property {readonly string[]} [labels]
 * @property {string} [sender]
 * @property {string} [to]
 */

export const BURST = 1_000;
export const ROWS_PER_S = 1_000;
export const ROW_CHARACTERS = 1024 * 1024;
const CHARACTERS_PER_S = 8 * 1024 * 1024;

export class Sampler {
  /** Messages that came. */
  received = 0;
  /** Of these, such as have in them what is searched for. */
  matched = 0;
  /** Of these, such as were taken. */
  taken = 0;
  held = false;
  #search = "";
  /** @type {Sampled[]} A ring of the newest. */
  #waiting = [];
  #next = 0;
  #rows = BURST;
  #characters = CHARACTERS_PER_S;
  #filledAt = 0;

  /**
   * Take only what has this text in its topic or value from now on, in whatever case.
   *
   * @param {string} text
   */
  search(text) {
    this.#search = text.toLowerCase();
  }

  /** @param {Sampled} message */
  add(message) {
    this.received += 1;
    if (this.#search && !isFound(message, this.#search)) return;
    this.matched += 1;
    if (this.held) return;
    this.#waiting[this.#next] = message;
    this.#next = (this.#next + 1) % BURST;
  }

  /**
   * The newest of what has come since the last time, oldest first.
   *
   * @param {number} now
   */
  take(now) {
    const passedS = Math.max(0, now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#rows = Math.min(BURST, this.#rows + passedS * ROWS_PER_S);
    this.#characters = Math.min(CHARACTERS_PER_S, this.#characters + passedS * CHARACTERS_PER_S);
    if (this.#waiting.length === 0) return [];
    const inOrder = [...this.#waiting.slice(this.#next), ...this.#waiting.slice(0, this.#next)];
    this.#waiting = [];
    this.#next = 0;
    const rows = [];
    for (const message of inOrder.reverse()) {
      if (this.#rows < 1 || this.#characters <= 0) break;
      const row = rowOf(message);
      rows.push(row);
      this.#rows -= 1;
      this.#characters -= row.text.length;
    }
    this.taken += rows.length;
    return rows.reverse();
  }
}

/**
 * What is shown of a message, and can be sent to another thread: a cut text is not `whole`.
 *
 * @param {Sampled} sampled
 * @returns {Row}
 */
export function rowOf({ value, at, ...others }) {
  const text = JSON.stringify(value);
  const whole = text.length <= ROW_CHARACTERS;
  // What is cut off a text may hold on to all of it: a copy does not.
  const kept = whole ? text : new TextDecoder().decode(new TextEncoder().encode(text.slice(0, ROW_CHARACTERS)));
  return { ...others, text: kept, whole, characters: text.length, at };
}

/**
 * Whether a message has a text, in lower case, in its topic or its value.
 *
 * @param {{topic: string, value: unknown}} message
 * @param {string} text
 */
export function isFound({ topic, value }, text) {
  return topic.toLowerCase().includes(text) || JSON.stringify(value).toLowerCase().includes(text);
}
