/**
 * The colours of the page's style, for what is drawn on a canvas; and when they change.
 *
 * Owner of the state: the style. What is asked is resolved by the browser, so that one definition serves light and dark.
 */

const probe = document.createElement("span");
probe.hidden = true;

/**
 * Return what `var(NAME)` is now, as `rgb(...)`.
 *
 * @param {string} name
 */
export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** @type {Set<() => void>} */
const listeners = new Set();

/**
 * Tell `act` when colours have changed, until `signal` ends that.
 *
 * @param {() => void} act
 * @param {AbortSignal} [signal]
 */
export function onColours(act, signal) {
  listeners.add(act);
  signal?.addEventListener("abort", () => listeners.delete(act), { once: true });
}

/** The page has taken other colours. */
export function coloursChanged() {
  for (const act of listeners) act();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", coloursChanged);
