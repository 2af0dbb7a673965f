/**
 * When what was said is written: together, at the end of the turn in which it was said.
 *
 * Owner of the state: `Turn`, of one client.
 */

export class Turn {
  #write;
  #scheduled = false;

  /** @param {() => void} write Writes all that waits. */
  constructor(write) {
    this.#write = write;
  }

  /** Something waits to be written. */
  schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.flush());
  }

  /** Write it now: what follows is to stand behind it on the wire. */
  flush() {
    this.#scheduled = false;
    this.#write();
  }
}
