/**
 * Try a policy: may somebody do something, and which rule says so; and what would another policy change for those who are
 * connected? The hub is asked (`$hub/policy/test`), and puts nothing in force.
 *
 * Owner of the state: `Trial`: which question was asked last; what is answered to another one is left out. Nothing is
 * asked before somebody wants it. Not here: what the hub does for it (`peers/admin/policy.py`).
 */

import { complaint } from "../../parts/complaint.js";
import { element, say } from "../../parts/element.js";
import { whole } from "../../parts/figures.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

export const POLICY_TOPIC = "$hub/policy/test";

/** All that may be asked about (`hub.policy.verdict.DEEDS`). */
const ACTIONS = [
  "publish", "subscribe", "request", "serve", "claim", "journal", "bring", "take",
  "consume", "label", "read-store", "write-store", "watch-store",
];

/** Most characters of a policy that a hub tries. */
const LARGEST_TEXT = 1_048_576;

/** How long a hub may take, milliseconds: with 10,000 connections and a large policy some seconds. */
const ANSWER_MS = 60_000;

/** So many names are offered while one writes. */
const OFFERED = 200;

/**
 * @import { PolicyChange, RulePlace, User, Verdict } from "../../feeds/services.d.ts"
 * @import { Session } from "../../shell/session.js"
 */

export class Trial {
  #session;
  #asked = 0; // number of the question whose answer is meant
  #offered = "";

  /**
   * @param {Session} session
   * @param {AbortSignal} signal
   */
  constructor(session, signal) {
    const { access: said } = words;
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
    this.policy = element("textarea", { id: "trial-policy", rows: 6, spellcheck: "false", maxlength: LARGEST_TEXT, placeholder: said.trialPolicyHint, "aria-label": said.trialPolicy });
    this.change = element("div", { id: "trial-change", class: "answers", role: "status" });
    const submit = (/** @type {() => void} */ act) => ({ submit: (/** @type {Event} */ event) => {
      event.preventDefault();
      act();
    } });
    this.element = element(
      "section", { class: "card trial", "aria-label": said.trial, hidden: !session.mayAsk(POLICY_TOPIC) },
      element("h2", {}, said.trial),
      element(
        "form", { class: "toolbar", autocomplete: "off", signal, on: submit(() => this.#askOne()) },
        this.user, this.role, this.action, this.topic, element("button", { type: "submit" }, said.trialAsk), this.users, this.roles,
      ),
      this.answers,
      element(
        "details", {},
        element("summary", {}, said.trialPolicy),
        element(
          "form", { class: "another", autocomplete: "off", signal, on: submit(() => this.#askChange()) },
          this.policy, element("div", { class: "toolbar" }, element("button", { type: "submit" }, said.trialChange), element("span", { class: "quiet" }, said.trialNotInForce)),
        ),
        this.change,
      ),
    );
  }

  /**
   * Offer these users and their roles while one writes.
   *
   * @param {User[]} users
   */
  offer(users) {
    const names = users.map(({ user }) => user).filter(Boolean).slice(0, OFFERED);
    const roles = [...new Set(users.flatMap(({ roles: held }) => held))].sort().slice(0, OFFERED);
    const made = JSON.stringify([names, roles]);
    if (made === this.#offered) return;
    this.#offered = made;
    this.users.replaceChildren(...names.map((value) => element("option", { value })));
    this.roles.replaceChildren(...roles.map((value) => element("option", { value })));
  }

  /** Ask the policy in force, and the one that is written beneath, if there is one. */
  async #askOne() {
    const { access: said } = words;
    const roles = this.role.value.split(/[\s,]+/).filter(Boolean);
    const question = { action: this.action.value, topic: this.topic.value, user: this.user.value.trim(), roles };
    const policy = this.policy.value;
    await this.#ask(this.answers, async () => {
      if (!policy.trim()) return [await this.#verdict("", question)];
      return [await this.#verdict(said.inForce, question), await this.#verdict(said.withThis, { ...question, policy })];
    });
  }

  /**
   * @param {string} label
   * @param {object} question
   */
  async #verdict(label, question) {
    try {
      const { verdict } = await this.#session.ask(POLICY_TOPIC, question, { timeoutMs: ANSWER_MS });
      return verdictOf(label, /** @type {Verdict} */ (verdict));
    } catch (error) {
      return problemOf(error, label);
    }
  }

  async #askChange() {
    await this.#ask(this.change, async () => {
      const question = { policy: this.policy.value, connected: true };
      const { change } = await this.#session.ask(POLICY_TOPIC, question, { timeoutMs: ANSWER_MS });
      return changeOf(/** @type {PolicyChange} */ (change));
    });
  }

  /**
   * Show what `act` finds, or why there is nothing, unless something else was asked meanwhile.
   *
   * @param {HTMLElement} place
   * @param {() => Promise<HTMLElement[]>} act
   */
  async #ask(place, act) {
    this.#asked += 1;
    const mine = this.#asked;
    place.replaceChildren(element("p", { class: "quiet" }, words.access.asking));
    let shown;
    try {
      shown = await act();
    } catch (error) {
      shown = [problemOf(error, "")];
    }
    if (this.#asked === mine) place.replaceChildren(...shown);
    else if (place.textContent === words.access.asking) say(place, "");
  }
}

/**
 * @param {unknown} error
 * @param {string} label
 */
function problemOf(error, label) {
  return element("p", { class: "refused" }, `${label ? `${label}: ` : ""}${visible(complaint(error))}`);
}

/**
 * @param {string} label
 * @param {Verdict} verdict
 */
function verdictOf(label, { allowed, text, place, limits }) {
  const { access: said } = words;
  const set = limits.filter(({ most }) => most !== null);
  return element(
    "div", { class: allowed ? "allowed" : "refused", dataset: { allowed: String(allowed) } },
    element("p", {}, element("strong", {}, `${label ? `${label}: ` : ""}${allowed ? said.allowed : said.refused}`), ` ${visible(text)}`),
    place && element("p", { class: "quiet" }, said.rule(placeOf(place))),
    ...set.map(({ key, most, place: at }) => element("p", { class: "quiet" }, said.limit(key.replaceAll("_", " "), whole(most ?? 0), at ? placeOf(at) : ""))),
  );
}

/** @param {RulePlace} place */
function placeOf({ file, line, key }) {
  const { access: said } = words;
  return file === "" ? said.builtIn : visible(`${file}${line === null ? "" : said.line(line)}: ${key}`);
}

/** @param {PolicyChange} change */
function changeOf({ text, closed, losing, users_losing: usersLosing, rows, user_rows: userRows }) {
  const { access: said } = words;
  const cells = (/** @type {string[]} */ ...texts) => element("tr", {}, ...texts.map((it) => element("td", {}, visible(it))));
  const some = (/** @type {string[]} */ shown, /** @type {number} */ count) => `${shown.join(", ")}${count > shown.length ? ` ${said.andMore(count - shown.length)}` : ""}`;
  const table = (/** @type {string} */ id, /** @type {string[]} */ columns, /** @type {HTMLElement[]} */ lines) =>
    lines.length === 0 ? null : element(
      "table", { class: id },
      element("thead", {}, element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it)))),
      element("tbody", { id }, ...lines),
    );
  const connections = rows.map(({ id, name, address, user, closed: isClosed, loses, lost }) =>
    cells(String(id), name || address, user, isClosed ? said.wouldBeClosed : some(loses, lost)));
  const users = userRows.map(({ user, loses, lost, gains, gained }) => cells(user, some(loses, lost), some(gains, gained)));
  return [
    element("p", { class: closed || losing || usersLosing ? "refused" : "allowed" }, visible(text)),
    table("trial-connections", said.trialConnections, connections),
    table("trial-users-change", said.trialUsers, users),
  ].filter((it) => it !== null);
}
