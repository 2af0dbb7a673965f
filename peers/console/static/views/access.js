/**
 * Access: which users there are, with their roles and what they hold; and what somebody was refused, since this view was
 * opened and before.
 *
 * Asks `$hub/users` every five seconds, all of its pages; hears `$hub/audit`, where one may, and asks what was told there before. What is looked for stands in
 * the address (`?search=`).
 *
 * Owner of the state: `Access`: the rows of the last `EVENTS` events. Bound: `PAGES` pages of users, of whom `ROWS` are shown. Cost for
 * the hub: a look at each connection and user, in steps. Not here: what the policy says (`access/trial.js`), and closing
 * connections (`connections.js`).
 */

import { complaint } from "../parts/complaint.js";
import { element, say } from "../parts/element.js";
import { bytes, clock, short, since, whole } from "../parts/figures.js";
import { poll } from "../parts/polling.js";
import { visible } from "../parts/visible.js";
import { fragmentOf } from "../shell/place.js";
import { words } from "../words.js";
import { Trial } from "./access/trial.js";

const USERS_TOPIC = "$hub/users";
const AUDIT_TOPIC = "$hub/audit";

/** How often users are asked for, milliseconds. */
const ASK_MS = 5_000;

/** Pages of 1,000 users. */
const PAGES = 10;
const ROWS = 300;

/** Events that are shown as they come, beside those that one has asked for; so many of these at once; and so much of a text, characters. */
const EVENTS = 200;
const EARLIER = 50;
const CHARACTERS = 500;

/** What is told of a reload, or of draining. */
const DETAILS = ["failed", "changed", "needs_restart", "closed", "clients"];

/**
 * @import { User } from "../feeds/services.d.ts"
 * @import { Place } from "../shell/place.js"
 * @import { Shell } from "../shell/views.js"
 *
 * @typedef {object} AuditEvent What `$hub/audit` tells: most of it belongs to some kinds alone.
 * @property {string} what
 * @property {number} [at] Seconds since 1970.
 * @property {string} [user]
 * @property {string} [name]
 * @property {string} [address]
 * @property {string} [action]
 * @property {string} [text]
 * @property {number} [count]
 * @property {string} [how]
 * @property {{user?: string, id?: number}} [of]
 */

/** @type {import("../shell/views.js").View} */
export const access = {
  name: "access",
  title: words.access.title,
  isFor: (session) => session.mayAsk(USERS_TOPIC),
  open: (shell, signal) => new Access(shell, signal),
};

class Access {
  #session;
  /** @type {User[]} */
  #users = [];
  #search = "";
  /** @type {HTMLInputElement} */
  search;
  /** @type {HTMLElement} */
  problem;
  /** @type {HTMLElement} */
  users;
  /** @type {HTMLElement} */
  told;
  /** @type {HTMLElement} */
  events;
  /** @type {HTMLElement} */
  eventsTold;
  /** @type {Trial} */
  trial;
  /** @type {HTMLButtonElement} */
  earlier;
  /** @type {number | null} When the oldest event was of those that one has asked for, seconds since 1970. */
  #oldest = null;
  #asked = 0; // events that one has asked for
  /** @type {Set<string> | null} Events that have come before the first answer, which may have them, too. */
  #heard = new Set();
  /** @type {HTMLElement} */
  element;

  /**
   * @param {Shell} shell
   * @param {AbortSignal} signal
   */
  constructor(shell, signal) {
    this.#session = shell.session;
    this.#make(shell, signal);
    poll(shell.session, ASK_MS, () => this.#ask(), signal, (error) => this.#complain(error));
    if (shell.session.mayHear(AUDIT_TOPIC)) this.#hear(signal);
  }

  /** @param {Place} place */
  show({ parameters }) {
    this.#search = parameters.get("search") ?? "";
    this.search.value = this.#search;
    this.#drawUsers();
  }

  async #ask() {
    /** @type {User[]} */
    const users = [];
    for (let pages = 0; pages < PAGES; pages += 1) {
      const after = users.at(-1)?.user;
      const page = await this.#session.ask(USERS_TOPIC, after === undefined ? null : { after });
      if (page.length === 0 || page.at(-1)?.user === after) break;
      users.push(...page);
    }
    this.#users = users;
    this.#complain(null);
    this.element.dataset.users = String(users.length);
    this.trial.offer(users);
    this.#drawUsers();
  }

  /** @param {AbortSignal} signal */
  #hear(signal) {
    const subscription = this.#session.client.subscribe(AUDIT_TOPIC, ({ topic, value }) => {
      if (topic !== AUDIT_TOPIC || typeof value !== "object" || value === null) return;
      this.events.prepend(eventRow(value)); // at once, as what is shown is short, whatever has come
      if (this.events.childElementCount > EVENTS + this.#asked) this.events.lastElementChild?.remove();
      this.#heard?.add(JSON.stringify(value));
      this.eventsTold.hidden = true;
    });
    subscription.confirmed.then(() => this.#askEarlier(), (error) => this.#complain(error));
    signal.addEventListener("abort", () => subscription.unsubscribe().catch(() => undefined), { once: true });
  }

  /** Show what was told before the oldest event that one has asked for; at first, before now. */
  async #askEarlier() {
    if (this.#session.mayAsk(AUDIT_TOPIC)) {
      this.earlier.disabled = true;
      const question = { limit: EARLIER, ...(this.#oldest === null ? {} : { before: this.#oldest }) };
      try {
        /** @type {AuditEvent[]} */
        const page = await this.#session.client.request(AUDIT_TOPIC, question);
        const unseen = page.filter((event) => !this.#heard?.has(JSON.stringify(event)));
        this.events.append(...unseen.map(eventRow));
        this.#asked += unseen.length;
        this.#oldest = page.at(-1)?.at ?? this.#oldest;
        this.#heard = null;
        this.earlier.hidden = page.length < EARLIER;
        this.eventsTold.hidden = this.events.childElementCount > 0;
      } catch (error) {
        this.#complain(error);
      }
      this.earlier.disabled = false;
    }
    this.events.setAttribute("aria-busy", "false");
  }

  #drawUsers() {
    const { access: said } = words;
    const wanted = this.#search.toLowerCase().split(/\s+/).filter(Boolean);
    const isFound = (/** @type {User} */ { user, roles }) => wanted.every((word) => `${user} ${roles.join(" ")}`.toLowerCase().includes(word));
    const found = wanted.length === 0 ? this.#users : this.#users.filter(isFound);
    const shown = found.slice(0, ROWS);
    const made = JSON.stringify(shown);
    if (this.users.dataset.shown !== made) {
      this.users.dataset.shown = made;
      this.users.replaceChildren(...shown.map(userRow));
    }
    const isOpen = this.#users.every(({ user }) => user === "");
    say(this.told, this.#users.length > 0 && isOpen ? said.noUsers : found.length > shown.length ? said.others(found.length - shown.length) : found.length === 0 ? said.notFound : "");
  }

  /** @param {unknown} error */
  #complain(error) {
    this.problem.hidden = error === null;
    say(this.problem, error === null ? "" : complaint(error));
  }

  /**
   * @param {Shell} shell
   * @param {AbortSignal} signal
   */
  #make(shell, signal) {
    const { access: said } = words;
    const go = (/** @type {Event} */ event) => {
      event.preventDefault();
      shell.go("access", [], { search: this.search.value });
    };
    this.search = element("input", { id: "users-search", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.searchHint, "aria-label": said.search, "data-search": true });
    this.problem = element("p", { id: "access-problem", class: "notice", role: "alert", hidden: true });
    this.users = element("tbody", { id: "users" });
    this.told = element("p", { id: "users-told", class: "quiet told-line", role: "status" });
    this.events = element("tbody", { id: "audit", "aria-busy": "true" });
    this.eventsTold = element("p", { class: "quiet told-line" }, said.noEvents);
    this.earlier = element("button", { id: "audit-earlier", type: "button", hidden: true, signal, on: { click: () => this.#askEarlier() } }, said.earlier);
    const heads = (/** @type {string[]} */ columns) => element("thead", {}, element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it))));
    this.trial = new Trial(shell.session, signal);
    this.element = element(
      "div", { class: "access stack" },
      this.problem,
      element(
        "section", { class: "card", "aria-label": said.users },
        element("h2", {}, said.users),
        element("form", { class: "toolbar", autocomplete: "off", signal, on: { submit: go } }, this.search, element("button", { type: "submit" }, said.find)),
        element("table", { class: "users" }, heads(said.userColumns), this.users), this.told,
      ),
      this.trial.element,
      element(
        "section", { class: "card", "aria-label": said.audit, hidden: !shell.session.mayHear(AUDIT_TOPIC) },
        element("h2", {}, said.audit),
        element("table", { class: "audit" }, heads(said.auditColumns), this.events), this.eventsTold, element("div", { class: "toolbar" }, this.earlier),
      ),
    );
  }
}

/** @param {User} row */
function userRow({ user, roles, connections, queued_bytes: queued, published_messages: published, dropped_messages: dropped }) {
  const { access: said } = words;
  const name = user === "" ? element("span", { class: "quiet" }, said.nobody) : element("a", { href: fragmentOf("connections", [], { search: user }) }, visible(user));
  return element(
    "tr", {},
    element("td", { class: "cut", title: visible(user) }, name),
    text(roles.join(" ")),
    element("td", {}, whole(connections)), element("td", {}, bytes(queued)), element("td", {}, short(published)),
    element("td", {}, short(dropped)),
  );
}

/** @param {AuditEvent} event */
function eventRow({ what, at, user, name, address, action, text: reason, count, how, of, ...others }) {
  const { access: said } = words;
  const details = /** @type {Record<string, unknown>} */ (others);
  const changed = DETAILS.filter((key) => key in details).map((key) => `${key}: ${JSON.stringify(details[key])}`);
  const times = typeof count === "number" && count > 1 ? said.times(count) : "";
  const done = [said.events[what] ?? what, action, of?.user ?? of?.id, times].filter((it) => it !== undefined && it !== null && it !== "");
  return element(
    "tr", { dataset: { what: said.events[what] === undefined ? "" : what } },
    element("td", {}, timeOf(at)),
    text(user || name || address || ""), text(done.join(" ")), text(reason ?? how ?? changed.join(", ")),
  );
}

/** @param {number | undefined} at Now, if it is not known. */
function timeOf(at) {
  const moment = typeof at === "number" ? new Date(at * 1000) : new Date();
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? clock(moment) : since(Number(moment) / 1000);
}

/** @param {unknown} said */
function text(said) {
  const whole = String(said);
  const shown = visible(whole.length > CHARACTERS ? `${whole.slice(0, CHARACTERS)}…` : whole);
  return element("td", { class: "cut", title: shown }, shown);
}
