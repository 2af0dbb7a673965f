/**
 * `TopicCounts`: which topics are busiest, of those that came here.
 *
 * Owner of the state: `TopicCounts`. Bounded: at `KNOWN` distinct topics the quieter half is forgotten and its messages are
 * counted together as those of other topics; a forgotten topic starts at nothing when it comes back. Cost: one map lookup
 * a message; `top` sorts what is known. Not here: what all others of the hub get (`$hub/topics`).
 */

const KNOWN = 10_000;
const SHOWN = 20;

/**
 * @typedef {object} Counted
 * @property {string} topic
 * @property {number} count
 * @property {number} before The count at the last `top`.
 *
 * @typedef {object} Busy
 * @property {string} topic
 * @property {number} count
 * @property {number} perSecond
 * @property {number} share Of all.
 *
 * @typedef {object} Top
 * @property {Busy[]} shown
 * @property {number} topics How many there are, those forgotten as often as that happened.
 * @property {number} otherTopics
 * @property {number} otherMessages Of these.
 */

export class TopicCounts {
  /** @type {Map<string, Counted>} By topic. */
  #counts = new Map();
  #forgottenTopics = 0;
  #forgottenMessages = 0;
  #toldAt;

  /** @param {number} now */
  constructor(now) {
    this.#toldAt = now;
  }

  /** @param {string} topic */
  add(topic) {
    const known = this.#counts.get(topic);
    if (known) {
      known.count += 1;
      return;
    }
    if (this.#counts.size >= KNOWN) this.#forget();
    this.#counts.set(topic, { topic, count: 1, before: 0 });
  }

  /**
   * The busiest with `count`, `perSecond` and `share` of all; how many `topics` there are, those forgotten as often as
   * that happened; and how many messages the `otherTopics` have.
   *
   * @param {number} now
   * @returns {Top}
   */
  top(now) {
    const seconds = Math.max(0.001, (now - this.#toldAt) / 1000);
    this.#toldAt = now;
    const sorted = this.#sorted();
    const total = sorted.reduce((sum, { count }) => sum + count, this.#forgottenMessages);
    const shown = sorted.slice(0, SHOWN).map(({ topic, count, before }) => (
      { topic, count, perSecond: (count - before) / seconds, share: count / total }
    ));
    for (const known of sorted) known.before = known.count;
    const others = sorted.slice(SHOWN);
    return {
      shown,
      topics: this.#counts.size + this.#forgottenTopics,
      otherTopics: others.length + this.#forgottenTopics,
      otherMessages: others.reduce((sum, { count }) => sum + count, this.#forgottenMessages),
    };
  }

  #sorted() {
    return [...this.#counts.values()].sort((one, other) => other.count - one.count);
  }

  #forget() {
    for (const { topic, count } of this.#sorted().slice(KNOWN / 2)) {
      this.#counts.delete(topic);
      this.#forgottenTopics += 1;
      this.#forgottenMessages += count;
    }
  }
}
