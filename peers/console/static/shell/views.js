/**
 * The open view: that of the address, if the user may see it.
 *
 * ```
 * address ── placeOf ──▶ view ── isFor? ── open ──▶ element in <main>        another place of the same view: `show`
 *                                                   another view: its signal is aborted, and it is gone
 * ```
 *
 * `views/` has the views, `console.js` lists them. A view that fails is reported in its place.
 */

import { element } from "../parts/element.js";
import { reason } from "../parts/figures.js";
import { words } from "../words.js";

/**
 * @typedef {object} Shell What a view is given.
 * @property {import("./session.js").Session} session
 * @property {boolean} wall Whether actions are left out: a screen on a wall.
 * @property {(name: string, rest?: (string | number)[], parameters?: Parameters) => void} go To another place.
 * @typedef {{element: HTMLElement, show?: (place: Place) => void}} Opened
 *   `show`: Called once it stands in the page, and with each further place of this view.
 * @typedef {{name: string, title: string, isFor: (session: import("./session.js").Session) => boolean,
 *   open: (shell: Shell, signal: AbortSignal) => Opened}} View
 *   `name`: As in the address. `isFor`: Whether the user of the page may see it.
 */

export class Views {
  #views;
  #session;
  #frame;
  /** @type {Shell} */ #shell;
  /** @type {{name: string, opened: Opened | null, ending: AbortController} | null} */ #open = null;

  /**
   * @param {View[]} views @param {import("./session.js").Session} session @param {import("./frame.js").Frame} frame
   * @param {boolean} wall
   */
  constructor(views, session, frame, wall) {
    this.#views = views;
    this.#session = session;
    this.#frame = frame;
    this.#shell = { session, wall, go: (name, rest, parameters) => this.go(name, rest, parameters) };
    this.#tell(words.shell.waits);
    addEventListener("hashchange", () => this.follow());
    session.onReady(() => this.follow());
  }

  // Go to a place, or to it again.
  /** @param {string} name @param {(string | number)[]} [rest] @param {Parameters} [parameters] */
  go(name, rest = [], parameters = {}) {
    const fragment = fragmentOf(name, rest, parameters);
    if (fragment === location.hash) this.follow();
    else location.hash = fragment;
  }

  /** Open what the address says. */
  follow() {
    if (this.#session.rights === null) return;
    const place = placeOf(location.hash, (name) => this.#views.some((view) => view.name === name));
    const entitled = this.#views.filter((view) => view.isFor(this.#session));
    const view = place.name === "" ? entitled[0] : this.#views.find(({ name }) => name === place.name);
    this.#frame.mark(view?.name);
    const { user } = this.#session.rights;
    if (view === undefined) this.#tell(words.shell.nothing(user));
    else if (!entitled.includes(view)) this.#tell(words.shell.barred(view.title, user));
    else this.#show(view, place);
  }

  /** @param {View} view @param {Place} place */
  #show(view, place) {
    try {
      if (this.#open?.name !== view.name) {
        this.#close();
        const ending = new AbortController();
        this.#open = { name: view.name, ending, opened: null };
        const opened = view.open(this.#shell, ending.signal);
        this.#open.opened = opened;
        this.#frame.main.replaceChildren(opened.element);
        this.#frame.main.dataset.view = view.name;
      }
      this.#open.opened?.show?.(place);
    } catch (error) {
      this.#tell(words.shell.failed(reason(error)));
      console.error(error);
    }
  }

  #close() {
    this.#open?.ending.abort();
    this.#open = null;
  }

  /** @param {string} text */
  #tell(text) {
    this.#close();
    delete this.#frame.main.dataset.view;
    this.#frame.main.replaceChildren(element("p", { class: "told", role: "status" }, text));
  }
}

// Where one is: the fragment of the address, `#/view/rest?parameters`, which can be copied, shared and gone back from.

/**
 * @typedef {{name: string, rest: string[], parameters: URLSearchParams}} Place
 *   `name`: Of the view; empty for the one that one begins with. `rest`: What follows it, such as an id.
 * @typedef {Record<string, string | number | null | undefined>} Parameters
 */

/** @param {string} fragment With its `#`. @param {(name: string) => boolean} isView @returns {Place} */
function placeOf(fragment, isView) {
  const text = fragment.replace(/^#/, "");
  if (!text) return { name: "", rest: [], parameters: new URLSearchParams() };
  const [path, query = ""] = split(text, "?");
  const [name, ...rest] = path.replace(/^\//, "").split("/").map(decoded);
  if (isView(name)) return { name, rest, parameters: new URLSearchParams(query) };
  return { name: "messages", rest: [], parameters: new URLSearchParams({ prefix: decoded(text) }) };
}

// Return the fragment of a place; parameters that are empty or not there are left out.
/** @param {string} name @param {(string | number)[]} [rest] @param {Parameters} [parameters] */
export function fragmentOf(name, rest = [], parameters = {}) {
  const said = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(said.map(([key, value]) => [key, String(value)])).toString();
  return `#/${[name, ...rest].map((part) => encodeURIComponent(part)).join("/")}${query ? `?${query}` : ""}`;
}

/** @param {string} text @param {string} at @returns {[string, string?]} */
function split(text, at) {
  const place = text.indexOf(at);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone "%": taken as it is
  }
}
