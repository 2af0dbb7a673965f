/** Events, errors and counters of a client. */

/** @import { Events } from "../hub.js" */

/** Who listens to what, and what there was to tell. */
export class Reports {
  errors = 0;
  /** Lost in the hub, as it tells. */
  droppedMessages = 0;
  /** Lost here, in the buffers of those who iterate. */
  skippedMessages = 0;
  /** @type {Map<keyof Events, Set<(...details: any[]) => void>>} */ #listeners = new Map();

  /**
   * @template {keyof Events} Event
   * @param {Event} event @param {Events[Event]} listener @returns {() => void}
   */
  on(event, listener) {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }

  /**
   * @template {keyof Events} Event
   * @param {Event} event @param {Parameters<Events[Event]>} details
   */
  emit(event, ...details) {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        listener(...details);
      } catch (error) {
        reportUncaught(error);
      }
    }
  }

  /** @param {unknown} error */
  report(error) {
    this.errors += 1;
    if (this.#listeners.get("error")?.size) this.emit("error", /** @type {Error} */ (error));
    else reportUncaught(error);
  }

  /** @param {number} count */
  dropped(count) {
    this.droppedMessages += count;
    this.emit("dropped", count);
  }

  /** @param {number} from @param {number} to */
  cut(from, to) {
    this.emit("cut", { from, to });
  }

  /** @param {number} count */
  skipped(count) {
    this.skippedMessages += count;
  }
}

/** @param {unknown} error */
function reportUncaught(error) {
  (globalThis.reportError ?? console.error)(error);
}
