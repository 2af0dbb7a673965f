/**
 * The frame of each view: the hub's name, the state of the connection, the user, the menu, keys and theme. `?wall` in the
 * address leaves out all actions, for a screen on a wall.
 */

import { coloursChanged } from "../parts/chart.js";
import { element, say, shape } from "../parts/element.js";
import { clock } from "../parts/figures.js";
import { words } from "../words.js";
import { fragmentOf } from "./views.js";

/** @import { View } from "./views.js" */

const brand = () =>
  shape(
    "svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
    shape("path", { d: "M8 8 2.5 3.500M8 8l5.5-4.500M8 8v6" }),
    shape("circle", { cx: 8, cy: 8, r: 3 }), shape("circle", { cx: 2.5, cy: 3.5, r: 1.7 }),
    shape("circle", { cx: 13.5, cy: 3.5, r: 1.7 }), shape("circle", { cx: 8, cy: 14, r: 1.7 }),
  );

export class Frame {
  #session;
  #views;
  #openAt = new Date(); // when a connection was there last
  /** @type {Map<string, HTMLAnchorElement>} The entries, by the names of the views. */
  #links = new Map();

  /**
   * @param {import("./session.js").Session} session @param {import("./session.js").SignIn} signIn
   * @param {import("./views.js").View[]} views @param {boolean} wall
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
      signIn.anonymous,
      signIn.form,
      element("nav", { id: "nav", "aria-label": words.shell.entries }, this.entries),
      this.main,
    );
    this.#sayTheme();
  }

  /** Show which entries there are, and which one is open. @param {string | undefined} openName */
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

/** @param {View} view @param {number} index */
function entry(view, index) {
  const key = index < 9 ? String(index + 1) : "";
  return element("a", { href: fragmentOf(view.name), title: key, "aria-keyshortcuts": key || undefined, dataset: { title: view.title } }, view.title);
}

// Whether the page is light or dark: as the system is, until the reader says otherwise.

const KEY = "topichub colours";
/** @typedef {"auto" | "light" | "dark"} Theme */

/** @type {Theme[]} */
const THEMES = ["auto", "light", "dark"];

export function theme() {
  return known(document.documentElement.dataset.theme);
}

/** Take what was chosen last. */
export function restoreTheme() {
  apply(read());
}

/** Take the next one. */
function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  apply(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // a browser that keeps nothing
  }
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** @param {string | null | undefined} name @returns {Theme} */
function known(name) {
  return THEMES.find((one) => one === name) ?? "auto";
}

/** @param {string | null} name */
function apply(name) {
  document.documentElement.dataset.theme = known(name);
  coloursChanged();
}

// Keys of the page: 1 to 9 open the entries in their order, "/" goes to where the view is searched, "?" shows them.

/** @param {ParentNode} entries Holds the links. */
export function listenToKeys(entries) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTypedInto(event.target)) return;
    const entry = /^[1-9]$/.test(event.key) ? entries.querySelectorAll("a")[Number(event.key) - 1] : undefined;
    if (entry) {
      entry.click();
      document.getElementById("view")?.focus(); // the element with the focus may be gone with its view
    }
    if (event.key === "?" && !document.querySelector("dialog[open]")) tellKeys();
    if (event.key !== "/") return;
    const field = /** @type {HTMLElement | null} */ (document.querySelector("main [data-search]"));
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
}

function tellKeys() {
  const close = element("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, words.shell.close);
  const dialog = element(
    "dialog", { id: "keys", class: "card confirm", "aria-label": words.shell.keys, on: { close: () => dialog.remove() } },
    element("p", {}, words.shell.keys), element("div", { class: "toolbar" }, element("span", { class: "spring" }), close),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {EventTarget | null} target */
function isTypedInto(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
