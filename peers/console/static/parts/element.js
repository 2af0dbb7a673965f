/** Elements of the page. A child that is no element becomes text, so nothing from elsewhere can become markup. */

import { words } from "../words.js";
import { complaint } from "./figures.js";

/**
 * @typedef {{[Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void}} Listeners By what they hear.
 * @typedef {string | number | boolean | null | undefined} Attribute
 * @typedef {{dataset?: Record<string, string>, on?: Listeners, signal?: AbortSignal}} Special
 * @typedef {Special & {[name: string]: Attribute | Special[keyof Special]}} Attributes
 */

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name Of the element.
 * @param {Attributes} [attributes] `true` is an attribute without a value, `false` and `undefined` none.
 * @param {...(Node | string | null | undefined)} children
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  const { dataset = {}, on = {}, signal, ...others } = attributes;
  Object.assign(made.dataset, dataset);
  for (const [event, listener] of Object.entries(on)) {
    made.addEventListener(event, /** @type {EventListener} */ (listener), { signal });
  }
  for (const [attribute, value] of Object.entries(others)) {
    if (value === true) made.setAttribute(attribute, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(attribute, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/**
 * An element of SVG: the same for pictures.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name @param {Record<string, string | number>} [attributes] @param {...(Node | string)} children
 */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value));
  made.append(...children);
  return made;
}

// Set a text only where it differs, so that there is no new layout, and no screen reader begins again. The text
// that is there is changed, and not replaced: what was replaced is left to be collected, megabytes of it where texts
// change fast.
/** @param {Node} node @param {string} text */
export function say(node, text) {
  const only = node.firstChild;
  if (only instanceof Text && only === node.lastChild) {
    if (only.data !== text) only.data = text;
  } else if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Show an error, or a text; null or "" hides the place. @param {HTMLElement} place @param {unknown} error */
export function complain(place, error) {
  const text = error === null ? "" : complaint(error);
  place.hidden = text === "";
  say(place, text);
}

/** A card with a title. @param {string} title @param {Attributes} attributes @param {...(Node | string | null)} children */
export function card(title, attributes, ...children) {
  return element("section", { class: "card", "aria-label": title, ...attributes }, element("h2", {}, title), ...children);
}

/** Replace the children of a place, if `key` is not the last one. @param {HTMLElement} place @param {string} key @param {() => Node[]} make */
export function renew(place, key, make) {
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  place.replaceChildren(...make());
}

/**
 * A form in one line, which the page handles itself: the browser sends nothing.
 * @param {() => void} submit @param {Attributes} attributes @param {...(Node | string | null)} children
 */
export function form(submit, attributes, ...children) {
  const act = (/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  };
  return element("form", { class: "toolbar", autocomplete: "off", on: { submit: act }, ...attributes }, ...children);
}

/** Return the head of a table. @param {readonly string[]} columns */
export function heads(columns) {
  return element("thead", {}, element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it))));
}

// `confirm`: asks whether something is really to be done, and perhaps for a text; a dialog that holds the focus.

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
