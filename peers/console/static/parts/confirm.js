/**
 * `confirm`: asks whether something is really to be done, and perhaps for a text; a dialog that holds the focus.
 */

import { element } from "./element.js";
import { words } from "../words.js";

/**
 * @param {string} question
 * @param {string} action What the button that does it says.
 * @param {{label: string, value: string} | null} [text] What is asked for beside.
 * @returns {Promise<string | null>} The text, null if it is not to be done.
 */
export function confirm(question, action, text = null) {
  return new Promise((resolve) => {
    const field = text && element("input", { type: "text", id: "confirm-text", maxlength: 100, value: text.value });
    const end = (/** @type {string | null} */ result) => {
      dialog.close();
      dialog.remove();
      resolve(result);
    };
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      end(field ? field.value : "");
    };
    const dialog = element(
      "dialog", { class: "card confirm", "aria-label": question, on: { cancel: () => end(null) } },
      element(
        "form", { on: { submit } },
        element("p", {}, question),
        field && element("label", { for: "confirm-text" }, text.label), field,
        element(
          "div", { class: "toolbar" },
          element("span", { class: "spring" }),
          element("button", { type: "button", on: { click: () => end(null) } }, words.shell.cancel),
          element("button", { type: "submit", class: "danger" }, action),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
