/**
 * `kindOf`: what kind of thing a value is, for people: as JSON has it, and what texts and numbers are often used for.
 *
 * Pure functions. Not here: what the hub's own encodings know beside it; a page is given JSON.
 */

/** @typedef {"null" | "boolean" | "integer" | "number" | "text" | "time" | "address" | "list" | "map"} Kind */

const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$/;
const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|(?=[0-9a-f:.]*:[0-9a-f:.]*:)[0-9a-f:.]{2,45})(\/\d{1,3})?$/i;

/** The longest text that is looked at for what it is used for, characters. */
const LOOKED_AT = 64;

/**
 * @returns {"null" | "boolean" | "integer" | "number" | "text" | "time" | "address" | "list" | "map"}
 * @param {unknown} value
 */
export function kindOf(value) {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "list";
  switch (typeof value) {
    case "boolean": return "boolean";
    case "number": return Number.isInteger(value) ? "integer" : "number";
    case "string": return textKind(value);
    default: return "map";
  }
}

/** @param {string} text */
function textKind(text) {
  if (text.length > LOOKED_AT) return "text";
  if (TIME.test(text)) return "time";
  return ADDRESS.test(text) ? "address" : "text";
}
