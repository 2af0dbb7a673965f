/**
 * What stands in one message: its value as a tree, or as text; and what it bears beside it.
 *
 * Owner of the state: the elements, and which of both forms is shown. A value that was cut is no JSON any more: it is shown
 * as text, with how long it is.
 */

import { element, say } from "../../parts/element.js";
import { moment } from "../../parts/figures.js";
import { valueTree } from "../../parts/value_tree.js";
import { visible } from "../../parts/visible.js";
import { words } from "../../words.js";

/** @import { Row } from "../../parts/sampler.js" */

export class Inspector {
  /** @type {Row | null} */
  #row = null;
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
