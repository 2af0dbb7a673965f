/**
 * `visible`: text of others as it is shown: what would not be seen, or would turn round what stands beside it, is written
 * out as `\u202e`. So are control characters, which a shell would obey where somebody copies them there.
 *
 * Pure functions. Cost: one look at the text.
 */

// Control characters but the line's end and the tab; soft hyphen; marks and overrides of direction; zero width; BOM.
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
