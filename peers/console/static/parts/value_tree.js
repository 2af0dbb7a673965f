/**
 * `valueTree`: a value as a tree, whose branches open by a click or a key. Closed branches are not made; an open one shows
 * `SHOWN` of its parts at first.
 */

import { words } from "../words.js";
import { element } from "./element.js";
import { kindOf } from "./sampler.js";
import { visible } from "./figures.js";

/** @import { Kind } from "./sampler.js" */

const SHOWN = 100;

/** Text of one leaf, characters; what is longer is shown in part. */
const TEXT_CHARACTERS = 10_000;

/** A branch with so few parts is open from the beginning, as deep as this. */
const OPEN_PARTS = 40;
const OPEN_DEPTH = 2;

/** Return the element for a value. @param {any} value */
export function valueTree(value) {
  return element("div", { class: "tree mono" }, part(null, value, 0));
}

/** @param {string | number | null} name @param {any} value @param {number} depth */
function part(name, value, depth) {
  const kind = kindOf(value);
  if (kind !== "list" && kind !== "map") return leaf(name, value, kind);
  const size = kind === "list" ? value.length : Object.keys(value).length;
  if (size === 0) return leaf(name, kind === "list" ? [] : {}, kind);
  const branch = element(
    "details", { class: "branch" },
    element("summary", {}, ...title(name), element("span", { class: "kind" }, words.values.sizes[kind](size))),
  );
  const open = () => {
    if (!branch.open || branch.childElementCount > 1) return;
    const parts = kind === "list" ? null : Object.keys(value);
    more(branch, value, parts, 0, size, depth);
  };
  branch.addEventListener("toggle", open);
  branch.open = depth === 0 || (depth < OPEN_DEPTH && size <= OPEN_PARTS);
  open();
  return branch;
}

/**
 * @param {HTMLDetailsElement} branch @param {any} value @param {string[] | null} names @param {number} from
 * @param {number} size @param {number} depth
 */
function more(branch, value, names, from, size, depth) {
  const to = Math.min(size, from + SHOWN);
  for (let index = from; index < to; index += 1) {
    const name = names === null ? index : names[index];
    branch.append(part(name, value[name], depth + 1));
  }
  if (to === size) return;
  const button = element("button", { type: "button", class: "more" }, words.values.more(size - to));
  button.addEventListener("click", () => {
    button.remove();
    more(branch, value, names, to, size, depth);
  });
  branch.append(button);
}

/** @param {string | number | null} name @param {unknown} value @param {Kind} kind */
function leaf(name, value, kind) {
  const text = typeof value === "string" ? JSON.stringify(value) : String(kind === "list" ? "[]" : kind === "map" ? "{}" : value);
  const shown = text.length > TEXT_CHARACTERS ? `${text.slice(0, TEXT_CHARACTERS)}… ${words.values.characters(text.length)}` : text;
  return element(
    "div", { class: "leaf" },
    ...title(name), element("span", { class: `value ${kind}` }, visible(shown)), element("span", { class: "kind" }, words.values.kinds[kind]),
  );
}

/** @param {string | number | null} name */
function title(name) {
  return name === null ? [] : [element("span", { class: "name" }, visible(String(name))), element("span", { class: "quiet" }, ": ")];
}
