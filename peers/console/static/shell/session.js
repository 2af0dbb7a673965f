/**
 * The one connection of the page, and the rights of its user, which are asked again with each connection. They are null where
 * unknown before the hub's answer.
 */

import { connect } from "../hub.js";
import { element, say } from "../parts/element.js";
import { words } from "../words.js";

/**
 * @import { Answers, Rights, ServiceTopic } from "../feeds/services.d.ts"
 * @import { RequestOptions, Welcome } from "../hub.js"
 */

const RIGHTS_TOPIC = "$hub/rights";

/** The rights of a user whose hub does not answer: publish and subscribe may be tried. @type {Rights} */
const UNTOLD = { user: "", roles: [], admin: false, may: ["publish", "subscribe"], asks: [], hears: [] };

/** A hub that does not answer this at once will not, milliseconds. */
const ANSWER_MS = 5_000;

export class Session {
  /** @type {Welcome | null} The hub's greeting; null before the first. */
  welcome = null;
  /** @type {Rights | null} The answer of `$hub/rights`; null before it. */
  rights = null;
  /** When the next attempt to connect is made, of the page's clock, milliseconds. */
  retryAt = 0;
  /** @type {Set<() => void>} */ #listeners = new Set();

  /** @param {string | undefined} token Sent to the hub. */
  constructor(token) {
    this.token = token;
    // Narrow: a user who may see a part of the topics under a prefix sees that part, and is not refused.
    this.client = connect("/", { name: "console", token, narrow: true });
    this.client.on("open", (welcome) => {
      this.welcome = welcome;
      this.#findRights();
    });
    this.client.on("error", (error) => {
      const code = "code" in error ? error.code : 0;
      if (code !== NOT_RECOGNISED && code !== FORBIDDEN) console.error(error); // those the sign-in shows
    });
    this.client.on("reconnecting", (delayMs) => {
      this.retryAt = performance.now() + delayMs;
    });
  }

  get state() { return this.client.statistics().state; }

  get isOpen() { return this.state === "open"; }

  /** Whether the hub itself would answer this. @param {string} topic */
  mayAsk(topic) {
    return this.rights !== null && this.rights.asks.includes(topic);
  }

  /** Whether one of the hub's own topics may be heard. @param {string} topic */
  mayHear(topic) {
    return this.rights !== null && this.rights.hears.includes(topic);
  }

  // Whether an action is granted for anything at all: publish, subscribe, request, serve, claim, journal.
  /** @param {string} action */
  may(action) {
    return this.rights !== null && this.rights.may.includes(action);
  }

  // Call `act` now if one is connected and the rights are known, and each time that this is so again.
  /** @param {() => void} act @param {AbortSignal} [signal] */
  onReady(act, signal) {
    this.#listeners.add(act);
    signal?.addEventListener("abort", () => this.#listeners.delete(act), { once: true });
    if (this.rights !== null && this.isOpen) act();
  }

  /**
   * Ask the hub itself. Rejects as `client.request` does.
   * @template {ServiceTopic} Topic
   * @param {Topic} topic @param {object | null} question @param {RequestOptions} [options]
   * @returns {Promise<Answers[Topic]>}
   */
  ask(topic, question, options) {
    return this.client.request(topic, question, options);
  }

  async #findRights() {
    let rights = UNTOLD;
    try {
      rights = await this.ask(RIGHTS_TOPIC, null, { timeoutMs: ANSWER_MS });
    } catch {
      if (!this.isOpen) return; // the connection has gone: the next one asks again
    }
    this.rights = rights;
    for (const act of [...this.#listeners]) act();
  }
}

// The token of the page's user. It comes by the link that the hub prints at its first start (`#token=…`, which no
// server is ever sent) or by the form, is kept in `sessionStorage`, and taken out of the address at once. A change of
// the user loads the page again, so nothing of an earlier user is left.

const KEY = "topichub token";
const FRAGMENT = "#token=";

/** Close codes by which a hub says that it does not know this token, or not any more. */
const NOT_RECOGNISED = 4401;
const FORBIDDEN = 4403;

/** The user name of connections without a token. */
const ANONYMOUS = "anonymous";

export class SignIn {
  #reload;

  /** @param {() => void} [reload] Loads the page again, for another user. */
  constructor(reload = () => location.reload()) {
    this.#reload = reload;
    if (location.hash.startsWith(FRAGMENT)) {
      sessionStorage.setItem(KEY, location.hash.slice(FRAGMENT.length));
      history.replaceState(null, "", location.pathname + location.search);
    }
    const { signIn, shell } = words;
    this.field = element("input", {
      id: "token", type: "password", required: true, maxlength: 16384, spellcheck: "false", autocomplete: "off",
    });
    this.problem = element("p", { id: "sign-in-problem", class: "notice", role: "alert", hidden: true });
    this.form = element(
      "form",
      { id: "sign-in", class: "card sign-in", autocomplete: "off", "aria-label": signIn.title, hidden: true },
      element("h2", {}, signIn.title),
      element("label", { for: "token" }, signIn.token),
      this.field,
      element("div", { class: "toolbar" }, element("button", { type: "submit", class: "primary" }, signIn.title)),
      this.problem,
      element("p", { class: "quiet" }, signIn.hint[0], element("code", {}, signIn.hint[1]), signIn.hint[2]),
    );
    this.who = element("span", { id: "user", class: "quiet", title: shell.user });
    this.toggle = element("button", { id: "sign", type: "button", hidden: true }, signIn.title);
    this.anonymous = element("p", { id: "anonymous", class: "notice", role: "status", hidden: true });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, this.field.value.trim());
      this.#reload();
    });
    this.toggle.addEventListener("click", () => (this.token ? this.#signOut() : this.#ask("")));
    addEventListener("hashchange", (event) => {
      if (!location.hash.startsWith(FRAGMENT)) return; // what follows is the link again, in a tab that has the page
      event.stopImmediatePropagation(); // it is no view
      this.#reload();
    });
  }

  /** The token, or undefined. */
  get token() { return sessionStorage.getItem(KEY) ?? undefined; }

  /** Show the user of the hub's welcome. @param {Welcome} welcome */
  welcomed({ user, anonymous }) {
    this.form.hidden = true;
    this.who.textContent = user ?? "";
    this.toggle.hidden = user === undefined;
    this.toggle.textContent = this.token ? words.signIn.out : words.signIn.title;
    this.anonymous.hidden = anonymous === undefined;
    say(this.anonymous, anonymous === undefined ? "" : words.shell.anonymous(anonymous, user === ANONYMOUS));
  }

  // The hub has ended the connection: ask for a token, if it was for want of one.
  /** @param {number} code @param {string} reason */
  refused(code, reason) {
    if (code !== NOT_RECOGNISED && code !== FORBIDDEN) return;
    const problem = code === NOT_RECOGNISED ? words.signIn.notValid : reason;
    const hadToken = this.token !== undefined;
    sessionStorage.removeItem(KEY);
    this.#ask(hadToken ? problem : "");
  }

  /** @param {string} problem */
  #ask(problem) {
    this.form.hidden = false;
    this.who.textContent = "";
    this.toggle.hidden = true;
    this.problem.hidden = !problem;
    this.problem.textContent = problem;
    this.field.value = "";
    this.field.focus();
  }

  #signOut() {
    sessionStorage.removeItem(KEY);
    this.#reload();
  }
}
