/**
 * `element`: makes an element of the page with its attributes and children.
 *
 * Invariant: a child that is no element becomes text, and nothing else: what came in a message, or was called so by a
 * far side, cannot become markup. Attributes are the page's own; `on` holds listeners, which end with `signal`.
 */

/**
 * @param {string} name Of the element.
 * @param {Record<string, any>} [attributes] `true` is an attribute without a value, `false` and `undefined` none;
 *   `class`, `dataset` (a map), `on` (a map of listeners) and `signal` are as they are called.
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {any} The element; `any`, as its kind follows from the name.
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  const { dataset = {}, on = {}, signal, ...others } = attributes;
  Object.assign(made.dataset, dataset);
  for (const [event, listener] of Object.entries(on)) made.addEventListener(event, listener, { signal });
  for (const [attribute, value] of Object.entries(others)) {
    if (value === true) made.setAttribute(attribute, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(attribute, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** An element of SVG: the same for pictures. */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value));
  made.append(...children);
  return made;
}

/** Set a text only where it differs, so that nothing is laid out anew, and no screen reader begins again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
