/**
 * Who the page is to the hub: the token, where it comes from, and what is shown of it.
 *
 * A token comes by the link that the hub prints at its first start (`#token=…`, which no server is ever sent) or by the
 * form, and is kept for as long as the tab is open. Owner of the state: `sessionStorage`. Invariants: a token is taken out
 * of the address at once, so that it is in no bookmark and no history; it is never put into the page.
 *
 * A change of who one is loads the page anew: whatever an earlier user saw is gone with it.
 */

const KEY = "topichub token";
const FRAGMENT = "#token=";

/** Close codes by which a hub says that it does not know this token, or not any more. */
const NOT_RECOGNISED = 4401;
const FORBIDDEN = 4403;

/** The name of those who show nothing. */
const ANONYMOUS = "anonymous";

export class SignIn {
  #elements;
  #reload;

  /**
   * @param {object} elements `form`, `token`, `problem`, `who`, `toggle` and `strangers`.
   * @param {() => void} [reload] Begins anew, as somebody else.
   */
  constructor(elements, reload = () => location.reload()) {
    this.#elements = elements;
    this.#reload = reload;
    if (location.hash.startsWith(FRAGMENT)) {
      sessionStorage.setItem(KEY, location.hash.slice(FRAGMENT.length));
      history.replaceState(null, "", location.pathname + location.search);
    }
    elements.form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, elements.token.value.trim());
      this.#reload();
    });
    elements.toggle.addEventListener("click", () => (this.token ? this.#signOut() : this.#ask("")));
    addEventListener("hashchange", (event) => {
      if (!location.hash.startsWith(FRAGMENT)) return; // what follows is the link again, in a tab that has the page
      event.stopImmediatePropagation(); // it is no prefix
      this.#reload();
    });
  }

  /** What is shown to the hub; undefined for nothing. */
  get token() {
    return sessionStorage.getItem(KEY) ?? undefined;
  }

  /** Show who one is, as the hub's greeting says it. */
  welcomed({ user, strangers }) {
    const { form, who, toggle, strangers: notice } = this.#elements;
    form.hidden = true;
    who.textContent = user ?? "";
    toggle.hidden = user === undefined;
    toggle.textContent = this.token ? "Sign out" : "Sign in";
    notice.hidden = strangers === undefined;
    const too = user === ANONYMOUS ? ", and so are you" : "";
    notice.textContent = `Whoever reaches this hub is let in, with the role ${strangers}${too}.`;
  }

  /** The hub has ended the connection: ask for a token, if it was for want of one. */
  refused(code, reason) {
    if (code !== NOT_RECOGNISED && code !== FORBIDDEN) return;
    const problem = this.token ? `${code}: ${reason}` : "";
    sessionStorage.removeItem(KEY);
    this.#ask(problem);
  }

  #ask(problem) {
    const { form, token, problem: told, who, toggle } = this.#elements;
    form.hidden = false;
    who.textContent = "";
    toggle.hidden = true;
    told.hidden = !problem;
    told.textContent = problem;
    token.value = "";
    token.focus();
  }

  #signOut() {
    sessionStorage.removeItem(KEY);
    this.#reload();
  }
}
