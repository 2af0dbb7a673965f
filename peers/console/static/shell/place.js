/**
 * Where one is: the fragment of the address, `#/view/rest?parameters`, which can be copied, shared and gone back from.
 *
 * Pure functions. A fragment that names no view is a prefix of messages, as links were before there were views.
 */

/**
 * @typedef {object} Place
 * @property {string} name Of the view; empty for the one that one begins with.
 * @property {string[]} rest What follows it, such as an id.
 * @property {URLSearchParams} parameters
 *
 * @typedef {Record<string, string | number | null | undefined>} Parameters
 */

/**
 * @param {string} fragment With its `#`.
 * @param {(name: string) => boolean} isView
 * @returns {Place}
 */
export function placeOf(fragment, isView) {
  const text = fragment.replace(/^#/, "");
  if (!text) return { name: "", rest: [], parameters: new URLSearchParams() };
  const [path, query = ""] = split(text, "?");
  const [name, ...rest] = path.replace(/^\//, "").split("/").map(decoded);
  if (isView(name)) return { name, rest, parameters: new URLSearchParams(query) };
  return { name: "messages", rest: [], parameters: new URLSearchParams({ prefix: decoded(text) }) };
}

/**
 * Return the fragment of a place; parameters that are empty or not there are left out.
 *
 * @param {string} name
 * @param {(string | number)[]} [rest]
 * @param {Parameters} [parameters]
 */
export function fragmentOf(name, rest = [], parameters = {}) {
  const said = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(said.map(([key, value]) => [key, String(value)])).toString();
  return `#/${[name, ...rest].map((part) => encodeURIComponent(part)).join("/")}${query ? `?${query}` : ""}`;
}

/**
 * @param {string} text
 * @param {string} at
 * @returns {[string, string?]}
 */
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
