/**
 * Actions on the selected messages, or on all that are listed: show one, export, publish again. Publishing asks first; messages
 * whose value was cut are left out, and counted.
 */

import { element, say } from "../../parts/element.js";
import { complaint, moment, visible } from "../../parts/figures.js";
import { lineOf } from "../../parts/file_sink.js";
import { valueTree } from "../../parts/value_tree.js";
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

// What stands in one message: its value as a tree, or as text; and what it bears beside it.

export class Inspector {
  /** @type {Row | null} */ #row = null;
  #asText = false;

  /** @param {AbortSignal} signal */
  constructor(signal) {
    const { messages: said } = words;
    this.topic = element("strong", { id: "inspected-topic" });
    this.beside = element("p", { id: "inspected-beside", class: "beside quiet" });
    this.value = element("pre", { id: "inspected-value", tabindex: 0, hidden: true });
    this.tree = element("div", { id: "inspected-tree", class: "holder", tabindex: 0 });
    const turn = () => {
      this.#asText = !this.#asText;
      this.#draw();
    };
    this.form = element("button", { id: "inspector-form", type: "button", signal, on: { click: turn } });
    this.element = element(
      "div", { id: "inspector", class: "inspector", hidden: true },
      element(
        "div", { class: "toolbar" },
        this.topic, element("span", { class: "spring" }), this.form,
        element("button", { id: "inspector-close", type: "button", signal, on: { click: () => this.show(null) } }, said.close),
      ),
      this.beside, this.tree, this.value,
    );
  }

  /** @param {Row | null} row Null closes it. */
  show(row) {
    this.#row = row;
    this.element.hidden = row === null;
    this.#draw();
  }

  #draw() {
    const { messages: said } = words;
    const row = this.#row;
    this.tree.replaceChildren();
    this.value.textContent = "";
    if (row === null) return;
    const asText = this.#asText || !row.whole;
    this.topic.textContent = visible(row.topic);
    const parts = [
      moment(row.at / 1000), row.offset === undefined ? null : said.atOffset(row.offset), row.labels?.length ? said.labelled(row.labels) : null,
      row.sender ? said.sentBy(row.sender) : null, row.to ? said.sentTo(row.to) : null,
    ];
    say(this.beside, visible(parts.filter(Boolean).join(" · ")));
    say(this.form, asText ? said.asTree : said.asText);
    this.form.hidden = !row.whole;
    this.tree.hidden = asText;
    this.value.hidden = !asText;
    if (!row.whole) this.value.textContent = visible(`${row.text}… ${words.values.characters(row.characters)}`);
    else if (asText) this.value.textContent = visible(JSON.stringify(JSON.parse(row.text), null, 2));
    else this.tree.replaceChildren(valueTree(JSON.parse(row.text)));
  }
}
