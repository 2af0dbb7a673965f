/**
 * What stands around each view: the hub's name, how the connection is, who one is, and the entries.
 *
 * Owner of the state: the elements; drawn by `draw`, twice a second. `?wall` in the address leaves out all that one
 * could do: a screen that many look at shows, and nobody acts there.
 */

import { element, say, shape } from "../parts/element.js";
import { clock } from "../parts/figures.js";
import { words } from "../words.js";
import { fragmentOf } from "./place.js";
import { nextTheme, theme } from "./theme.js";

const brand = () =>
  shape(
    "svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
    shape("path", { d: "M8 8 2.5 3.500M8 8l5.5-4.500M8 8v6" }),
    shape("circle", { cx: 8, cy: 8, r: 3 }), shape("circle", { cx: 2.5, cy: 3.5, r: 1.7 }),
    shape("circle", { cx: 13.5, cy: 3.5, r: 1.7 }), shape("circle", { cx: 8, cy: 14, r: 1.7 }),
  );

/** @import { View } from "./views.js" */

export class Frame {
  #session;
  #views;
  #openAt = new Date(); // when a connection was there last
  /** @type {Map<string, HTMLAnchorElement>} The entries, by the names of the views. */
  #links = new Map();

  /**
   * @param {import("./session.js").Session} session
   * @param {import("./sign_in.js").SignIn} signIn
   * @param {import("./views.js").View[]} views
   * @param {boolean} wall
   */
  constructor(session, signIn, views, wall) {
    this.#session = session;
    this.#views = views;
    document.documentElement.classList.toggle("wall", wall);
    this.hub = element("span", { id: "hub", class: "quiet" });
    this.state = element("span", { id: "state", class: "state", role: "status", dataset: { state: "connecting" } });
    this.stale = element("span", { id: "stale", hidden: true });
    this.theme = element("button", { id: "theme", type: "button", class: "theme", on: { click: () => this.#turn() } });
    this.entries = element("ul", { id: "entries" });
    this.main = element("main", { id: "view", tabindex: -1 });
    document.body.prepend(
      element("a", { class: "skip", href: "#view", on: { click: (event) => this.#skip(event) } }, words.shell.skip),
      element(
        "header", {},
        element("h1", {}, brand(), "topichub"), this.hub, this.state, this.stale, element("span", { class: "spring" }),
        signIn.who, this.theme, wall ? null : signIn.toggle,
      ),
      signIn.strangers,
      signIn.form,
      element("nav", { id: "nav", "aria-label": words.shell.entries }, this.entries),
      this.main,
    );
    this.#sayTheme();
  }

  /**
   * Show which entries there are, and which one is open.
   *
   * @param {string | undefined} openName
   */
  mark(openName) {
    const entitled = this.#views.filter((view) => this.#session.rights !== null && view.isFor(this.#session));
    const names = entitled.map(({ name }) => name);
    if (names.join() !== [...this.#links.keys()].join()) {
      this.#links = new Map(entitled.map((view, index) => [view.name, entry(view, index)]));
      this.entries.replaceChildren(...[...this.#links.values()].map((link) => element("li", {}, link)));
    }
    for (const [name, link] of this.#links) {
      if (name !== openName) {
        link.removeAttribute("aria-current");
      } else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "page");
        link.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone they are wider than it
      }
    }
    const title = this.#views.find(({ name }) => name === openName)?.title;
    const hub = this.#session.welcome?.name;
    document.title = [title, hub, "topichub"].filter(Boolean).join(" · ");
  }

  draw() {
    const { state, welcome, retryAt } = this.#session;
    const seconds = Math.max(0, (retryAt - performance.now()) / 1000);
    this.state.dataset.state = state;
    say(this.state, state === "waiting" ? words.shell.waiting(seconds) : words.shell.states[state]);
    if (welcome === null) return;
    if (state === "open") this.#openAt = new Date();
    this.stale.hidden = state === "open";
    document.documentElement.toggleAttribute("data-stale", state !== "open");
    say(this.stale, words.shell.stale(clock(this.#openAt)));
    say(this.hub, `${welcome.name} · ${welcome.software}`);
    this.hub.title = words.shell.hub(welcome.hub);
  }

  #turn() {
    nextTheme();
    this.#sayTheme();
  }

  #sayTheme() {
    const label = words.shell.theme(words.shell.themes[theme()]);
    this.theme.title = label;
    this.theme.setAttribute("aria-label", label);
    this.theme.dataset.theme = theme();
  }

  /** @param {Event} event */
  #skip(event) {
    event.preventDefault(); // the fragment says which view is open
    this.main.focus();
  }
}

/**
 * @param {View} view
 * @param {number} index
 */
function entry(view, index) {
  const key = index < 9 ? String(index + 1) : "";
  return element("a", { href: fragmentOf(view.name), title: key, "aria-keyshortcuts": key || undefined, dataset: { title: view.title } }, view.title);
}
