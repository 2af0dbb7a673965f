/**
 * Keys of the page: 1 to 9 open the entries in their order, "/" goes to where the view is searched, "?" tells of them.
 *
 * Nothing happens while something is typed, nor with a modifier: those keys are the browser's.
 */

import { element } from "../parts/element.js";
import { words } from "../words.js";

/** @param {ParentNode} entries Holds the links. */
export function listenToKeys(entries) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTypedInto(event.target)) return;
    const entry = /^[1-9]$/.test(event.key) ? entries.querySelectorAll("a")[Number(event.key) - 1] : undefined;
    if (entry) {
      entry.click();
      document.getElementById("view")?.focus(); // what had it may be gone with its view
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
