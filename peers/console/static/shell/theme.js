/**
 * Whether the page is light or dark: as the system is, until the reader says otherwise.
 *
 * Owner of the state: `localStorage`, so that the next visit looks the same; a browser that has none forgets it.
 */

import { coloursChanged } from "../parts/colours.js";

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
export function nextTheme() {
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

/**
 * @param {string | null | undefined} name
 * @returns {Theme}
 */
function known(name) {
  return THEMES.find((one) => one === name) ?? "auto";
}

/** @param {string | null} name */
function apply(name) {
  document.documentElement.dataset.theme = known(name);
  coloursChanged();
}
