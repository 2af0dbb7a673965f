/**
 * Who is slow, and why: the first `SHOWN` of those that the hub says are, each with a sentence, and a link to his connection.
 *
 * Asks `$hub/who` for each of them, every two seconds, so that it is for those who may ask that.
 */

import { labelOf } from "../../feeds/connections.js";
import { element, say } from "../../parts/element.js";
import { poll } from "../../parts/polling.js";
import { whySlow } from "../../parts/slowness.js";
import { visible } from "../../parts/visible.js";
import { fragmentOf } from "../../shell/place.js";
import { words } from "../../words.js";

const WHO_TOPIC = "$hub/who";
const ASK_MS = 2_000;

/** So many are asked for; the table of connections has all of them. */
const SHOWN = 5;

/**
 * @import { Session } from "../../shell/session.js"
 *
 * @typedef {object} One
 * @property {number} id
 * @property {string} label
 * @property {string} why
 */

export class Slow {
  #session;
  /** @type {readonly number[]} */
  #ids = [];
  /** @type {One[]} */
  #shown = [];
  /** @type {HTMLElement} */
  rows = element("ul", {});
  /** @type {HTMLAnchorElement} */
  more = element("a", { href: fragmentOf("connections", [], { slow: 1 }), hidden: true });
  element = element("section", { id: "slow", class: "card", "aria-label": words.overview.whoIsSlow, hidden: true }, element("h2", {}, words.overview.whoIsSlow), this.rows, this.more);

  /**
   * @param {Session} session
   * @param {AbortSignal} signal Of the view.
   */
  constructor(session, signal) {
    this.#session = session;
    if (session.mayAsk(WHO_TOPIC)) poll(session, ASK_MS, () => this.#ask(), signal);
  }

  /**
   * These are slow by now.
   *
   * @param {readonly number[]} ids
   */
  set(ids) {
    const isNew = this.#ids.length === 0 && ids.length > 0;
    this.#ids = ids;
    if (ids.length === 0 && this.#shown.length > 0) this.#draw([]);
    if (isNew && this.#session.mayAsk(WHO_TOPIC)) this.#ask().catch(() => undefined); // two seconds later it is asked again
  }

  /**
   * Return who of those that are shown is called so; undefined for nobody.
   *
   * @param {string} label
   */
  find(label) {
    return this.#shown.find((one) => one.label === label)?.id;
  }

  async #ask() {
    const ids = this.#ids.slice(0, SHOWN);
    const told = await Promise.all(ids.map((id) => this.#session.ask(WHO_TOPIC, { id })));
    const rows = told.flat().filter((row) => ids.includes(row.id)).map((row) => ({ id: row.id, label: labelOf(row), why: whySlow(row) || words.slowness.was }));
    this.#draw(rows);
  }

  /** @param {One[]} rows */
  #draw(rows) {
    this.element.hidden = rows.length === 0;
    const more = this.#ids.length - rows.length;
    this.more.hidden = more <= 0;
    say(this.more, more > 0 ? words.overview.moreSlow(more) : "");
    const same = rows.length === this.#shown.length && rows.every(({ id, label }, at) => this.#shown[at].id === id && this.#shown[at].label === label);
    this.#shown = rows;
    if (!same) {
      this.rows.replaceChildren(...rows.map(({ id, label }) =>
        element("li", {}, element("a", { href: fragmentOf("connections", [String(id)]) }, visible(label)), element("span", { class: "why" }))));
    }
    rows.forEach(({ why }, at) => {
      const node = this.rows.children[at].querySelector(".why");
      if (node !== null) say(node, why);
    });
  }
}
