/**
 * What a view does again and again, for as long as it is open: `signal` is that of the view, and ends it.
 */

/**
 * Do it now, and every so many milliseconds.
 *
 * @param {number} ms
 * @param {() => void} act
 * @param {AbortSignal} signal
 */
export function every(ms, act, signal) {
  if (signal.aborted) return;
  act();
  const timer = setInterval(act, ms);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/**
 * Do it once a frame. A page that nobody sees has no frames.
 *
 * @param {() => void} act
 * @param {AbortSignal} signal
 */
export function eachFrame(act, signal) {
  const frame = () => {
    if (signal.aborted) return;
    act();
    requestAnimationFrame(frame);
  };
  frame();
}
