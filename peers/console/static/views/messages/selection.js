/**
 * What can be done with the messages that are selected, or with all that are listed: they are exported, or published anew.
 *
 * Publishing asks first: it says how many, and to where. Messages whose value was cut are left out, and that is said.
 * Owner of the state: the dialog. Not here: what is selected (`stream.js`).
 */

import { complaint } from "../../parts/complaint.js";
import { element, say } from "../../parts/element.js";
import { lineOf } from "../../parts/ndjson.js";
import { words } from "../../words.js";

/** @import { Row } from "../../parts/sampler.js" */

/** So many are published before the hub is asked whether it has them. */
const TOGETHER = 100;

export class Selection {
  /** @type {{whole: Row[], cut: number}} What is asked about. */
  rows = { whole: [], cut: 0 };
  #stream;
  #client;

  /**
   * @param {import("./stream.js").Stream} stream
   * @param {import("../../hub.js").Client | null} client What publishes; null where nobody may.
   * @param {AbortSignal} signal
   */
  constructor(stream, client, signal) {
    const { messages: said } = words;
    this.#stream = stream;
    this.#client = client;
    this.told = element("span", { id: "selection", class: "quiet", role: "status" });
    this.export = element("button", { id: "export", type: "button", title: said.exportHint, signal, on: { click: () => this.#export() } }, said.export);
    this.replay = element("button", { id: "replay", type: "button", hidden: client === null, title: said.replayHint, signal, on: { click: () => this.#ask() } }, said.replay);
    this.topic = element("input", { id: "replay-topic", type: "text", maxlength: 1024, spellcheck: "false", placeholder: said.ownTopics });
    this.question = element("p", { id: "replay-question" });
    this.outcome = element("p", { id: "replay-outcome", role: "status", class: "quiet" });
    this.sure = element("button", { id: "replay-sure", type: "button", class: "primary", signal, on: { click: () => this.#publish() } }, said.publish);
    this.dialog = element(
      "dialog", { id: "replay-dialog", "aria-labelledby": "replay-question" },
      this.question,
      element("label", { for: "replay-topic" }, said.replayTo), this.topic, this.outcome,
      element(
        "div", { class: "toolbar" }, element("span", { class: "spring" }),
        element("button", { id: "replay-cancel", type: "button", signal, on: { click: () => this.dialog.close() } }, said.cancel), this.sure,
      ),
    );
    this.topic.addEventListener("input", () => this.#sayQuestion(), { signal });
  }

  draw() {
    const { messages: said } = words;
    const none = this.#stream.length === 0;
    this.export.disabled = this.replay.disabled = none;
    say(this.told, this.#stream.selected > 0 ? said.selected(this.#stream.selected) : "");
  }

  #chosen() {
    const rows = this.#stream.chosen();
    const whole = rows.filter((row) => row.whole);
    return { whole, cut: rows.length - whole.length };
  }

  #export() {
    const { whole, cut } = this.#chosen();
    const link = URL.createObjectURL(new Blob(whole.map(lineOf), { type: "application/x-ndjson" }));
    element("a", { href: link, download: "messages.ndjson" }).click();
    setTimeout(() => URL.revokeObjectURL(link), 60_000); // the browser has begun to save it by then
    say(this.told, words.messages.exported(whole.length, cut));
  }

  #ask() {
    this.rows = this.#chosen();
    say(this.outcome, "");
    this.sure.disabled = this.rows.whole.length === 0;
    this.#sayQuestion();
    this.dialog.showModal();
  }

  #sayQuestion() {
    say(this.question, words.messages.question(this.rows.whole.length, this.rows.cut, this.topic.value));
  }

  async #publish() {
    const { messages: said } = words;
    const { whole } = this.rows;
    const to = this.topic.value;
    this.sure.disabled = true;
    let published = 0;
    try {
      while (published < whole.length && this.dialog.open) {
        const some = whole.slice(published, published + TOGETHER);
        await Promise.all(some.map(({ topic, text, labels }) => (
          this.#client?.publish(to || topic, JSON.parse(text), { confirm: true, labels: labels ?? [] })
        )));
        published += some.length;
        say(this.outcome, said.replayed(published, whole.length));
      }
    } catch (error) {
      say(this.outcome, `${said.replayed(published, whole.length)} ${complaint(error)}`);
    }
  }
}
