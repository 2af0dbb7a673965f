/** Service names that this client claims. */

import { checkedText } from "./checks.js";
import { HubError } from "./errors.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { KnownName } from "../hub.js"
 * @import { Line } from "./line.js"
 * @import { Reports } from "./reports.js"
 */

/** Names in one answer of a hub: fewer say that there are no more. */
const NAMES_PAGE = 1_000;

export class Names {
  #line;
  #reports;
  /** @type {Map<string, ClaimedName>} By name. */
  #claimed = new Map();

  /** @param {Line} line @param {Reports} reports */
  constructor(line, reports) {
    this.#line = line;
    this.#reports = reports;
  }

  /** @param {string} name @param {readonly string[]} labels @param {boolean} queue */
  claim(name, labels, queue) {
    this.#line.assertNotClosed();
    if (!/^(?=.{1,255}$)[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+$/.test(name)) throw new TypeError(`no service name: ${name}`);
    if (this.#claimed.has(name)) throw new TypeError(`this client has claimed ${name} already`);
    const checked = labels.map((label) => checkedText(label, "label"));
    const claimed = new ClaimedName(name, checked, queue, (it) => this.#release(it));
    this.#claimed.set(name, claimed);
    if (this.#line.isOpen) this.#tell(claimed);
    return claimed;
  }

  /** @param {{name: string, standing: Standing | "lost", text: string}} told */
  stands({ name, standing, text }) {
    const claimed = this.#claimed.get(name);
    if (claimed === undefined) return; // released meanwhile
    if (standing === "lost") this.#lose(claimed, new HubError(1008, text));
    else claimed.stand(standing, text);
  }

  opened() {
    for (const claimed of this.#claimed.values()) this.#tell(claimed);
  }

  lost() {
    for (const claimed of this.#claimed.values()) claimed.stand("asked", "the connection was lost");
  }

  /** @param {Error} error */
  finish(error) {
    for (const claimed of this.#claimed.values()) claimed.end(error);
    this.#claimed.clear();
  }

  /** @param {ClaimedName} claimed */
  #tell(claimed) {
    const { name, labels, queue } = claimed;
    this.#line.ask({ type: "claim", name, labels, queue }, (error, lost, { text }) => {
      if (lost || this.#claimed.get(name) !== claimed) return;
      if (error === null) claimed.stand(text === "queued" ? "queued" : "owned");
      else this.#lose(claimed, error);
    });
  }

  /** @param {ClaimedName} claimed @param {Error} error */
  #lose(claimed, error) {
    this.#claimed.delete(claimed.name);
    if (claimed.end(error)) this.#reports.report(error); // else whoever claimed it is told by `confirmed`
  }

  /** @param {ClaimedName} claimed @returns {Promise<void>} */
  #release(claimed) {
    if (this.#claimed.get(claimed.name) !== claimed) return Promise.resolve();
    this.#claimed.delete(claimed.name);
    claimed.end(new HubError(1000, `the name ${claimed.name} was released`));
    if (!this.#line.isOpen) return Promise.resolve();
    const done = handled(deferred());
    // Whatever is answered, it is no longer owned here.
    this.#line.ask({ type: "release", name: claimed.name }, () => done.settle(null));
    return done.promise;
  }
}

/**
 * All names that begin with a prefix, which the hub lists in pages.
 * @param {(topic: string, value: object) => Promise<any>} ask @param {string} prefix @returns {Promise<KnownName[]>}
 */
export async function knownNames(ask, prefix) {
  const found = [];
  for (;;) {
    const page = await ask("$hub/names", { prefix, after: found.at(-1)?.name ?? "" });
    found.push(...page);
    if (page.length < NAMES_PAGE) return found;
  }
}

// A service name that this client has claimed: whether it is owned, and why not.

/** @typedef {"asked" | "queued" | "owned" | "ended"} Standing */

/** What one caller of `claim` holds. */
class ClaimedName {
  /** @type {Standing} */ #standing = "asked";
  #reason = "";
  #release;
  #confirmed = handled(deferred());
  #wasConfirmed = false;
  #owned = handled(deferred());

  /**
   * @param {string} name @param {readonly string[]} labels @param {boolean} queue
   * @param {(claimed: ClaimedName) => Promise<void>} release
   */
  constructor(name, labels, queue, release) {
    this.name = name;
    this.labels = Object.freeze(labels);
    this.queue = queue;
    this.#release = release;
  }

  get owned() { return this.#standing === "owned"; }

  /** "asked" (also while there is no connection), "queued", "owned", or "ended". */
  get standing() { return this.#standing; }

  /** Why it is not owned, or not any more; for people. */
  get reason() { return this.#reason; }

  get confirmed() { return this.#confirmed.promise; }

  /** A promise that this client owns it; rejects when it does not claim it any more. */
  whenOwned() {
    return this.#owned.promise;
  }

  /** Give it up, or wait for it no longer. */
  release() {
    return this.#release(this);
  }

  /** @param {Standing} standing @param {string} [reason] */
  stand(standing, reason = "") {
    if (this.owned && standing !== "owned") this.#owned = handled(deferred());
    this.#standing = standing;
    this.#reason = reason;
    if (standing === "asked") return;
    this.#wasConfirmed = true;
    this.#confirmed.resolve();
    if (standing === "owned") this.#owned.resolve();
  }

  /** Returns whether it had been confirmed before. @param {Error} error */
  end(error) {
    this.stand("asked", error.message); // no promise of before tells that it is owned
    this.#standing = "ended";
    this.#confirmed.reject(error);
    this.#owned.reject(error);
    return this.#wasConfirmed;
  }
}
