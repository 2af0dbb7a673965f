/**
 * A form by which an admin gives a connection more room for what waits, or another overflow policy (`$hub/queue`).
 *
 * Owner of the state: its fields, which show what the hub has told, until one types.
 */

import { reason } from "../../parts/complaint.js";
import { element, say } from "../../parts/element.js";
import { words } from "../../words.js";

export const QUEUE_TOPIC = "$hub/queue";

const POLICIES = ["drop-oldest", "drop-newest", "disconnect"];

export class QueueForm {
  #isTouched = false;

  /**
   * @param {import("../../shell/session.js").Session} session
   * @param {number} id
   * @param {AbortSignal} signal
   */
  constructor(session, id, signal) {
    const { connection: said } = words;
    const touch = () => {
      this.#isTouched = true;
    };
    const field = (/** @type {string} */ name) => element("input", { id: `queue-${name}`, type: "number", min: 1, required: true, signal, on: { input: touch } });
    this.messages = field("messages");
    this.bytes = field("bytes");
    this.overflow = element(
      "select", { id: "queue-overflow", signal, on: { change: touch } },
      ...POLICIES.map((policy) => element("option", { value: policy }, policy)),
    );
    this.done = element("span", { id: "queue-changed", class: "quiet", role: "status" });
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const wanted = { messages: this.messages.valueAsNumber, bytes: this.bytes.valueAsNumber, overflow: this.overflow.value };
      try {
        await session.ask(QUEUE_TOPIC, { id, ...wanted });
        this.#isTouched = false;
        say(this.done, said.changed);
      } catch (error) {
        say(this.done, reason(error));
      }
    };
    const label = (/** @type {string} */ text, /** @type {HTMLElement} */ input) => element("label", {}, element("span", { class: "label" }, text), input);
    this.element = element(
      "form", { id: "queue", class: "card queue-form", autocomplete: "off", "aria-label": said.queueTitle, signal, on: { submit } },
      element("h3", {}, said.queueTitle),
      label(said.messages, this.messages), label(said.bytes, this.bytes), label(said.overflow, this.overflow),
      element("button", { type: "submit" }, said.change), this.done,
    );
  }

  /**
   * Show what holds now, unless one has begun to change it.
   *
   * @param {import("../../feeds/services.d.ts").Connection} row
   */
  show({ queue, overflow }) {
    if (this.#isTouched) return;
    this.messages.value = String(queue.messages);
    this.bytes.value = String(queue.bytes);
    this.overflow.value = overflow;
  }
}
