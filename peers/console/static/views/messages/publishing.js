/**
 * A form that publishes one message, and says when the hub has it. Owner of the state: its fields.
 */

import { complaint, reason } from "../../parts/complaint.js";
import { element } from "../../parts/element.js";
import { words } from "../../words.js";

/**
 * Return the form, in its card.
 *
 * @param {import("../../hub.js").Client} client
 * @param {AbortSignal} signal
 */
export function publishing(client, signal) {
  const { messages: said } = words;
  const topic = element("input", { id: "topic", type: "text", spellcheck: "false", required: true, maxlength: 1024, value: "/demo/hello" });
  const value = element("textarea", { id: "value", rows: 3, spellcheck: "false" }, '{"text": "hello"}');
  const told = element("span", { id: "published", role: "status" });
  const tell = (/** @type {string} */ text, /** @type {boolean} */ bad) => {
    told.textContent = text;
    told.classList.toggle("bad", bad);
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const startedAt = performance.now();
    try {
      await client.publish(topic.value, parsed(value.value), { confirm: true });
      tell(said.published(performance.now() - startedAt), false);
    } catch (error) {
      tell(complaint(error), true);
    }
  };
  return element(
    "section", { class: "card", "aria-label": said.publish },
    element("h2", {}, said.publish),
    element(
      "form", { id: "publish", autocomplete: "off", signal, on: { submit } },
      element("label", { for: "topic" }, said.topic), topic,
      element("label", { for: "value" }, said.valueHint), value,
      element("div", { class: "toolbar" }, element("button", { type: "submit", class: "primary" }, said.publish), told),
    ),
  );
}

/**
 * JSON if it reads as such, else text, as on the command line; what begins as JSON and is none is likely a mistake.
 *
 * @param {string} text
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/^\s*[{["]/.test(text)) return text;
    throw new TypeError(words.messages.noJson(reason(error)), { cause: error });
  }
}
