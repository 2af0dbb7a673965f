/**
 * Access: users with their roles and resources (`$hub/users`, every five seconds); rejections (`$hub/audit`, and earlier ones); and
 * what a user may do.
 */

import { card, complain, element, form, heads, renew, say } from "../parts/element.js";
import { bytes, clock, complaint, short, since, visible, whole } from "../parts/figures.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";

/**
 * @import { User, Verdict } from "../feeds/services.d.ts"
 * @import { Session } from "../shell/session.js"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.access;
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

/** Fields of a reload, or of draining, that are shown. */
const DETAILS = ["failed", "changed", "needs_restart", "closed", "clients"];

/**
 * @typedef {{what: string, at?: number, user?: string, name?: string, address?: string, action?: string, text?: string,
 *   count?: number, how?: string, of?: {user?: string, id?: number}}} AuditEvent
 *   An event of `$hub/audit`: most fields belong to some kinds only. `at`: Seconds since 1970.
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
  /** @type {User[]} */ #users = [];
  #search = "";
  /** @type {number | null} When the oldest event was of those that one has asked for, seconds since 1970. */
  #oldest = null;
  #asked = 0; // events that one has asked for
  /** @type {Set<string> | null} Events that have come before the first answer, which may have them, too. */
  #heard = new Set();

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#session = shell.session;
    const go = () => shell.go("access", [], { search: this.search.value });
    this.search = element("input", { id: "users-search", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.searchHint, "aria-label": said.search, "data-search": true });
    this.problem = element("p", { id: "access-problem", class: "notice", role: "alert", hidden: true });
    this.users = element("tbody", { id: "users" });
    this.told = element("p", { id: "users-told", class: "quiet told-line", role: "status" });
    this.events = element("tbody", { id: "audit", "aria-busy": "true" });
    this.eventsTold = element("p", { class: "quiet told-line" }, said.noEvents);
    this.earlier = element("button", { id: "audit-earlier", type: "button", hidden: true, signal, on: { click: () => this.#askEarlier() } }, said.earlier);
    this.trial = new Trial(shell.session, signal);
    this.element = element(
      "div", { class: "access stack" },
      this.problem,
      card(
        said.users, {},
        form(go, { signal }, this.search, element("button", { type: "submit" }, said.find)),
        element("table", { class: "users" }, heads(said.userColumns), this.users), this.told,
      ),
      this.trial.element,
      card(
        said.audit, { hidden: !shell.session.mayHear(AUDIT_TOPIC) },
        element("table", { class: "audit" }, heads(said.auditColumns), this.events), this.eventsTold, element("div", { class: "toolbar" }, this.earlier),
      ),
    );
    poll(shell.session, ASK_MS, () => this.#ask(), signal, (error) => complain(this.problem, error));
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
    complain(this.problem, null);
    this.element.dataset.users = String(users.length);
    this.trial.offer(users);
    this.#drawUsers();
  }

  /** @param {AbortSignal} signal */
  #hear(signal) {
    const subscription = this.#session.client.subscribe(AUDIT_TOPIC, ({ topic, value }) => {
      if (topic !== AUDIT_TOPIC || typeof value !== "object" || value === null) return;
      this.events.prepend(eventRow(value)); // at once: a row is short, however long the event is
      if (this.events.childElementCount > EVENTS + this.#asked) this.events.lastElementChild?.remove();
      this.#heard?.add(JSON.stringify(value));
      this.eventsTold.hidden = true;
    });
    subscription.confirmed.then(() => this.#askEarlier(), (error) => complain(this.problem, error));
    signal.addEventListener("abort", () => subscription.unsubscribe().catch(() => undefined), { once: true });
  }

  /** Show events before the oldest one that was asked for; at first, before now. */
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
        complain(this.problem, error);
      }
      this.earlier.disabled = false;
    }
    this.events.setAttribute("aria-busy", "false");
  }

  #drawUsers() {
    const wanted = this.#search.toLowerCase().split(/\s+/).filter(Boolean);
    const isFound = (/** @type {User} */ { user, roles }) => wanted.every((word) => `${user} ${roles.join(" ")}`.toLowerCase().includes(word));
    const found = wanted.length === 0 ? this.#users : this.#users.filter(isFound);
    const shown = found.slice(0, ROWS);
    renew(this.users, JSON.stringify(shown), () => shown.map(userRow));
    const isOpen = this.#users.every(({ user }) => user === "");
    say(this.told, this.#users.length > 0 && isOpen ? said.noUsers : found.length > shown.length ? said.others(found.length - shown.length) : found.length === 0 ? said.notFound : "");
  }
}

/** @param {User} row */
function userRow({ user, roles, connections, queued_bytes: queued, published_messages: published, dropped_messages: dropped }) {
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

// Tests a permission: may a user do an action on a topic, and which rule decides (`$hub/policy/test`).

const POLICY_TOPIC = "$hub/policy/test";

/** All that may be asked about (`hub.policy.policy.DEEDS`). */
const ACTIONS = [
  "publish", "subscribe", "request", "serve", "claim", "journal", "bring", "take",
  "consume", "label", "read-store", "write-store", "watch-store",
];

/** So many names are offered while one writes. */
const OFFERED = 200;

class Trial {
  #session;
  #asked = 0; // number of the question whose answer is meant
  #offered = "";

  /** @param {Session} session @param {AbortSignal} signal */
  constructor(session, signal) {
    this.#session = session;
    const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {Record<string, string>} */ attributes = {}) =>
      element("input", { id, type: "text", spellcheck: "false", maxlength: 1024, placeholder: label, "aria-label": label, ...attributes });
    this.user = field("trial-user", said.trialUser, { list: "trial-users" });
    this.role = field("trial-role", said.trialRole, { list: "trial-roles" });
    this.topic = field("trial-topic", said.trialTopic);
    this.action = element("select", { id: "trial-action", "aria-label": said.trialAction }, ...ACTIONS.map((it) => element("option", {}, it)));
    this.users = element("datalist", { id: "trial-users" });
    this.roles = element("datalist", { id: "trial-roles" });
    this.answers = element("div", { id: "trial-answers", class: "answers", role: "status" });
    const submit = () => this.#ask();
    this.element = card(
      said.trial, { class: "card trial", hidden: !session.mayAsk(POLICY_TOPIC) },
      form(
        submit, { signal },
        this.user, this.role, this.action, this.topic, element("button", { type: "submit" }, said.trialAsk), this.users, this.roles,
      ),
      this.answers,
    );
  }

  /** Offer these users and their roles while one writes. @param {User[]} users */
  offer(users) {
    const names = users.map(({ user }) => user).filter(Boolean).slice(0, OFFERED);
    const roles = [...new Set(users.flatMap(({ roles: held }) => held))].sort().slice(0, OFFERED);
    const made = JSON.stringify([names, roles]);
    if (made === this.#offered) return;
    this.#offered = made;
    this.users.replaceChildren(...names.map((value) => element("option", { value })));
    this.roles.replaceChildren(...roles.map((value) => element("option", { value })));
  }

  /** Ask, and show the answer, or why there is none, unless something else was asked meanwhile. */
  async #ask() {
    const roles = this.role.value.split(/[\s,]+/).filter(Boolean);
    const question = { action: this.action.value, topic: this.topic.value, user: this.user.value.trim(), roles };
    this.#asked += 1;
    const mine = this.#asked;
    this.answers.replaceChildren(element("p", { class: "quiet" }, words.access.asking));
    let shown;
    try {
      const { verdict } = await this.#session.ask(POLICY_TOPIC, question);
      shown = verdictOf(/** @type {Verdict} */ (verdict));
    } catch (error) {
      shown = element("p", { class: "refused" }, visible(complaint(error)));
    }
    if (this.#asked === mine) this.answers.replaceChildren(shown);
  }
}

/** @param {Verdict} verdict */
function verdictOf({ allowed, text, limits }) {
  const set = limits.filter(({ most }) => most !== null);
  return element(
    "div", { class: allowed ? "allowed" : "refused", dataset: { allowed: String(allowed) } },
    element("p", {}, element("strong", {}, allowed ? said.allowed : said.refused), ` ${visible(text)}`),
    ...set.map(({ key, most }) => element("p", { class: "quiet" }, said.limit(key.replaceAll("_", " "), whole(most ?? 0)))),
  );
}
