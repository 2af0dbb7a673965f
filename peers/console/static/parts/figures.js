/** Numbers, bytes, rates, times, texts and errors as people read them. Pure functions. */

import { language } from "../words.js";

const WHOLE = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const THREE = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
const SHORT_MOMENT = new Intl.DateTimeFormat(language, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});
const MOMENT = new Intl.DateTimeFormat(language, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const CLOCK = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const EXACT = new Intl.NumberFormat(language, { maximumSignificantDigits: 15 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const PREFIXES = ["", "k", "M", "G", "T"];

/** @typedef {number | null | undefined} Figure One that may not be known. */

/** The `pattern` of a field for a time: 24 hours in every language of the browser. */
export const TIME = String.raw`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,3})?)?`;

/** Shown for an unknown figure. */
const UNKNOWN = "–";

/** @param {Figure} value @returns {value is number} */
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** A whole number, with its digits in groups. @param {Figure} value */
export function whole(value) {
  return isKnown(value) ? WHOLE.format(value) : UNKNOWN;
}

/** A number in three digits: 0.25, 12.4k, 3.1M. @param {Figure} value */
export function short(value) {
  return isKnown(value) ? scaled(value, 1000, PREFIXES, "") : UNKNOWN;
}

/** A number as it is: of a value, which is not the page's to round. @param {Figure} value */
export function exact(value) {
  return isKnown(value) ? EXACT.format(value) : UNKNOWN;
}

/** Bytes in three digits. @param {Figure} value */
export function bytes(value) {
  return isKnown(value) ? scaled(value, 1024, UNITS, " ") : UNKNOWN;
}

// The same a second, of what `format` writes.
/** @param {(value: number) => string} format @returns {(value: Figure) => string} */
export function perSecond(format) {
  return (value) => (isKnown(value) ? `${format(value)}/s` : UNKNOWN);
}

/** A part of one, in percent. @param {Figure} value */
export function percent(value) {
  return isKnown(value) ? `${THREE.format(100 * value)} %` : UNKNOWN;
}

/** A time in seconds: 3.1 ms, 12 s, 2 h 5 min. @param {Figure} seconds */
export function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 1) return `${THREE.format(seconds * 1000)} ms`;
  if (seconds < 60) return `${THREE.format(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A time of day, by the reader's clock. @param {Date} time */
export function clock(time) {
  return CLOCK.format(time);
}

/** A moment, seconds since 1970, by the reader's clock. @param {Figure} seconds */
export function moment(seconds) {
  return isKnown(seconds) ? MOMENT.format(seconds * 1000) : UNKNOWN;
}

/** The same, shorter: in a table. @param {Figure} seconds */
export function since(seconds) {
  return isKnown(seconds) ? SHORT_MOMENT.format(seconds * 1000) : UNKNOWN;
}

/** @param {number} value @param {number} step @param {string[]} units @param {string} space */
function scaled(value, step, units, space) {
  let left = value;
  let unit = 0;
  while (Math.abs(left) >= step && unit < units.length - 1) {
    left /= step;
    unit += 1;
  }
  if (Math.abs(left) < 10 && unit === 0 && units[0] === "B") return `${WHOLE.format(left)}${space}${units[0]}`;
  return `${THREE.format(left)}${units[unit] ? space : ""}${units[unit]}`;
}

// `visible`: text from elsewhere as it is shown: invisible and direction-changing characters are escaped as \uXXXX.

// Control characters but the line's end and the tab; soft hyphen; marks and overrides of direction; zero width; BOM.
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Errors for people: `reason` is the text, `complaint` the text behind the code, if there is one.

/** @param {unknown} error @returns {string} */
export function reason(error) {
  return typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
}

/** @param {unknown} error */
export function complaint(error) {
  const code = typeof error === "object" && error !== null && "code" in error && error.code ? `${error.code}: ` : "";
  return `${code}${reason(error)}`;
}
