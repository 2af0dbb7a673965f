/**
 * What a view asks the hub again and again: one question at a time, only while one is connected and the page is seen.
 *
 * Owner of the state: `poll`, whether a question is under way. A refusal, or a hub that is away, is told to `fail`; the
 * next time asks again.
 */

import { every } from "./timing.js";

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
