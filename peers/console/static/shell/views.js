/**
 * Which view is open: as the address says, if it is for whoever is at the page.
 *
 * ```
 * address ── placeOf ──▶ view ── isFor? ── open ──▶ element in <main>        another place of the same view: `show`
 *                                                   another view: its signal is aborted, and it is gone
 * ```
 *
 * A view is an object with what is in `View`; `views/` has them, `console.js` lists them. What it opens it ends by the
 * signal: listeners, timers, subscriptions.
 *
 * Owner of the state: `Views`. Invariants: at most one view is open; a view that fails is told of in its place, and the
 * others go on; while the connection is lost, what is open stays.
 */

import { element } from "../parts/element.js";
import { reason } from "../parts/complaint.js";
import { words } from "../words.js";
import { fragmentOf, placeOf } from "./place.js";

/**
 * @typedef {object} Shell What a view is given.
 * @property {import("./session.js").Session} session
 * @property {boolean} wall Whether nobody acts here.
 * @property {(name: string, rest?: (string | number)[], parameters?: import("./place.js").Parameters) => void} go To another place.
 *
 * @typedef {object} Opened
 * @property {HTMLElement} element
 * @property {(place: import("./place.js").Place) => void} [show] Called once it stands in the page, and with each
 *   further place of this view.
 *
 * @typedef {object} View
 * @property {string} name As in the address.
 * @property {string} title
 * @property {(session: import("./session.js").Session) => boolean} isFor Whether whoever is at the page may see it.
 * @property {(shell: Shell, signal: AbortSignal) => Opened} open
 */

export class Views {
  #views;
  #session;
  #frame;
  /** @type {Shell} */
  #shell;
  /** @type {{name: string, opened: Opened | null, ending: AbortController} | null} */
  #open = null;

  /**
   * @param {View[]} views
   * @param {import("./session.js").Session} session
   * @param {import("./frame.js").Frame} frame
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

  /**
   * Go to a place, or to it again.
   *
   * @param {string} name
   * @param {(string | number)[]} [rest]
   * @param {import("./place.js").Parameters} [parameters]
   */
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

  /**
   * @param {View} view
   * @param {import("./place.js").Place} place
   */
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
