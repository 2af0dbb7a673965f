/**
 * May somebody do something, and which rule says so? The hub is asked (`$hub/policy/test`).
 *
 * Owner of the state: `Trial`: which question was asked last; what is answered to another one is left out. Nothing is
 * asked before somebody wants it. Not here: what the hub does for it (`peers/admin/access.py`).
 */

import { complaint } from "../../parts/complaint.js";
import { element } from "../../parts/element.js";
import { whole } from "../../parts/figures.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

export const POLICY_TOPIC = "$hub/policy/test";

/** All that may be asked about (`hub.policy.verdict.DEEDS`). */
const ACTIONS = [
  "publish", "subscribe", "request", "serve", "claim", "journal", "bring", "take",
  "consume", "label", "read-store", "write-store", "watch-store",
];

/** So many names are offered while one writes. */
const OFFERED = 200;

/**
 * @import { User, Verdict } from "../../feeds/services.d.ts"
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
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#ask();
    };
    this.element = element(
      "section", { class: "card trial", "aria-label": said.trial, hidden: !session.mayAsk(POLICY_TOPIC) },
      element("h2", {}, said.trial),
      element(
        "form", { class: "toolbar", autocomplete: "off", signal, on: { submit } },
        this.user, this.role, this.action, this.topic, element("button", { type: "submit" }, said.trialAsk), this.users, this.roles,
      ),
      this.answers,
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
  const { access: said } = words;
  const set = limits.filter(({ most }) => most !== null);
  return element(
    "div", { class: allowed ? "allowed" : "refused", dataset: { allowed: String(allowed) } },
    element("p", {}, element("strong", {}, allowed ? said.allowed : said.refused), ` ${visible(text)}`),
    ...set.map(({ key, most }) => element("p", { class: "quiet" }, said.limit(key.replaceAll("_", " "), whole(most ?? 0)))),
  );
}
