/** Repeated work of a view, until its `signal` ends it. */

/** Do it now, and every so many milliseconds. @param {number} ms @param {() => void} act @param {AbortSignal} signal */
export function every(ms, act, signal) {
  if (signal.aborted) return;
  act();
  const timer = setInterval(act, ms);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** Do it once a frame. A hidden page has no frames. @param {() => void} act @param {AbortSignal} signal */
export function eachFrame(act, signal) {
  const frame = () => {
    if (signal.aborted) return;
    act();
    requestAnimationFrame(frame);
  };
  frame();
}

// Polling: one request at a time, only while the page is connected and visible.

/**
 * @param {import("../shell/session.js").Session} session
 * @param {number} ms How often, at most.
 * @param {() => Promise<void>} ask
 * @param {AbortSignal} signal Of the view.
 * @param {(error: unknown) => void} [fail]
 */
export function poll(session, ms, ask, signal, fail = () => {}) {
  let isAsking = false;
  every(ms, async () => {
    if (isAsking || !session.isOpen || document.hidden) return;
    isAsking = true;
    try {
      await ask();
    } catch (error) {
      if (!signal.aborted && session.isOpen) fail(error);
    } finally {
      isAsking = false;
    }
  }, signal);
}
