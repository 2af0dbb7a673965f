/**
 * Keys of the page: 1 to 9 open the entries in their order, "/" goes to where the view is searched.
 *
 * Nothing happens while something is typed, nor with a modifier: those keys are the browser's.
 */

/** @param {ParentNode} entries Holds the links. */
export function listenToKeys(entries) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTypedInto(event.target)) return;
    if (/^[1-9]$/.test(event.key)) entries.querySelectorAll("a")[Number(event.key) - 1]?.click();
    if (event.key !== "/") return;
    const field = /** @type {HTMLElement | null} */ (document.querySelector("main [data-search]"));
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
}

/** @param {EventTarget | null} target */
function isTypedInto(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
