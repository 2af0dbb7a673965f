/**
 * What an error says to people: `reason` is its text, `complaint` the text behind its code, where it has one.
 *
 * Pure functions. An error is whatever was thrown, or what the thread of the feed has told of it.
 */

/**
 * @param {unknown} error
 * @returns {string}
 */
export function reason(error) {
  return typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
}

/** @param {unknown} error */
export function complaint(error) {
  const code = typeof error === "object" && error !== null && "code" in error && error.code ? `${error.code}: ` : "";
  return `${code}${reason(error)}`;
}
