/** The stores of this hub, and the first `ENTRIES` entries of one that is opened. */

import { untyped } from "../../hub.js";
import { bytes, complaint, duration, short, visible, whole } from "../../parts/figures.js";
import { element, say } from "../../parts/element.js";
import { words } from "../../words.js";

/** So many stores, and entries, are shown; and so much of a key or value, characters. */
const STORES = 200;
const ENTRIES = 200;
const CHARACTERS = 500;

/**
 * @import { StoreEntry } from "../../hub.js"
 * @import { Store as Listed } from "../../feeds/services.d.ts"
 * @import { Session } from "../../shell/session.js"
 */

export class Stores {
  #session;
  #open = ""; // name

  /** @param {Session} session @param {AbortSignal} signal */
  constructor(session, signal) {
    const { mesh: said } = words;
    this.#session = session;
    /** @param {string} id @param {string[]} columns @returns {[HTMLElement, HTMLTableSectionElement]} */
    const table = (id, columns) => {
      const rows = element("tbody", { id });
      const heads = element("tr", {}, ...columns.map((it) => element("th", { scope: "col" }, it)));
      return [element("table", { class: id }, element("thead", {}, heads), rows), rows];
    };
    const [list, rows] = table("stores", said.storeColumns);
    const [entries, entryRows] = table("entries", said.entryColumns);
    this.rows = rows;
    this.entryRows = entryRows;
    this.told = element("p", { id: "entries-told", class: "quiet told-line", role: "status" });
    this.name = element("h3", { id: "entries-of" });
    this.opened = element("div", { hidden: true }, this.name, entries, this.told);
    this.element = element("section", { class: "card", "aria-label": said.stores, hidden: true }, element("h2", {}, said.stores), list, this.opened);
    rows.addEventListener("click", ({ target }) => {
      const name = target instanceof Element ? target.closest("button")?.dataset.store : undefined;
      if (name !== undefined) this.#show(name);
    }, { signal });
  }

  // Show them as the hub lists them.
  /** @param {Listed[]} listed */
  set(listed) {
    this.element.hidden = listed.length === 0;
    const shown = listed.slice(0, STORES);
    if (JSON.stringify(shown.map(({ name }) => name)) !== this.rows.dataset.names) {
      this.rows.dataset.names = JSON.stringify(shown.map(({ name }) => name));
      this.rows.replaceChildren(...shown.map(({ name }) => row(name)));
    }
    shown.forEach((one, at) => {
      const { cells } = this.rows.rows[at];
      [visible(one.fed_from.join(" ")), whole(one.entries), bytes(one.bytes), short(one.commands_total), whole(one.refused_total)]
        .forEach((text, column) => say(cells[column + 1], text));
    });
  }

  /** @param {string} name */
  async #show(name) {
    const { mesh: said } = words;
    this.#open = name;
    this.opened.hidden = false;
    say(this.name, visible(name));
    this.entryRows.replaceChildren();
    say(this.told, said.reading);
    /** @type {HTMLElement[]} */
    const found = [];
    let isMore = false;
    try {
      for await (const entry of this.#session.client.store(name).entries()) {
        isMore = found.length === ENTRIES;
        if (isMore || this.#open !== name) break;
        found.push(entryRow(entry));
      }
      if (this.#open !== name) return;
      say(this.told, isMore ? said.firstEntries(ENTRIES) : found.length === 0 ? said.noEntries : "");
    } catch (error) {
      if (this.#open === name) say(this.told, complaint(error));
    }
    if (this.#open === name) this.entryRows.replaceChildren(...found);
  }
}

/** @param {string} name */
function row(name) {
  const button = element("button", { type: "button", class: "cut", dataset: { store: name } }, visible(name));
  return element("tr", {}, element("td", { class: "cut" }, button), ...Array.from({ length: 5 }, () => element("td", { class: "cut" })));
}

/** @param {StoreEntry} entry */
function entryRow({ key, value, version, expiresS }) {
  const [keyText, valueText] = [textOf(key), textOf(value)];
  return element(
    "tr", {},
    element("td", { class: "cut", title: keyText }, keyText), element("td", { class: "cut", title: valueText }, valueText),
    element("td", {}, whole(version)), element("td", {}, expiresS === null ? "" : duration(expiresS)),
  );
}

/** @param {unknown} value */
function textOf(value) {
  const text = JSON.stringify(untyped(value)) ?? "";
  return visible(text.length > CHARACTERS ? `${text.slice(0, CHARACTERS)}…` : text);
}
