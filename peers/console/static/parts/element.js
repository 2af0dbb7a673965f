/**
 * `element`: makes an element of the page with its attributes and children.
 *
 * Invariant: a child that is no element becomes text, and nothing else: what came in a message, or was called so by a
 * far side, cannot become markup. Attributes are the page's own; `on` holds listeners, which end with `signal`.
 */

/**
 * @typedef {{[Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void}} Listeners By what they hear.
 *
 * @typedef {string | number | boolean | null | undefined} Attribute
 *
 * @typedef {{dataset?: Record<string, string>, on?: Listeners, signal?: AbortSignal}} Special
 *
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
 *
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number>} [attributes]
 * @param {...(Node | string)} children
 */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value));
  made.append(...children);
  return made;
}

/**
 * Set a text only where it differs, so that nothing is laid out anew, and no screen reader begins again. The text that is
 * there is changed, and not replaced: what was replaced is left to be collected, megabytes of it where texts change fast.
 *
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  const only = node.firstChild;
  if (only instanceof Text && only === node.lastChild) {
    if (only.data !== text) only.data = text;
  } else if (node.textContent !== text) {
    node.textContent = text;
  }
}
