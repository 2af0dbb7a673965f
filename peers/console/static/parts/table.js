/**
 * A table of any number of rows, of which only those in sight are elements of the page.
 *
 * ```
 * viewport (scrolls) ── body (as high as all rows) ─┬─ head (sticks to the top)
 *                                                   └─ lines (some 40, moved to where one looks, filled anew)
 * ```
 *
 * A row keeps its height, so that a position is a multiplication. Rows come in the order to show; `onSort` is called with the
 * order that is wished for. Arrow, page and home keys choose a row, Enter opens it.
 */

import { element, say } from "./element.js";

/** Height of a row, CSS pixels: `--table-row` in styles/table.css. */
const ROW_PX = 30;

/** Lines kept beyond what fits. */
const SPARE = 2;

/**
 * @template Row
 * @typedef {{key: string, title: string, width: string, number?: boolean, narrow?: boolean,
 *   fill: (cell: HTMLElement, row: Row) => void}} Column
 *   `width`: As in `grid-template-columns`. `number`: Whether it stands at the right. `narrow`: Whether a phone shows
 *   it.
 */

/**
 * A column that says a text of its row.
 * @template Row @param {string} key @param {string} title @param {string} width
 * @param {(row: Row) => string | number} text @param {Partial<Column<Row>>} [more] @returns {Column<Row>}
 */
export function textual(key, title, width, text, more = {}) {
  return { key, title, width, fill: (cell, row) => {
    const said = String(text(row));
    say(cell, said);
    if (cell.title !== said) cell.title = said;
  }, ...more };
}

/**
 * A column that says a figure of its row.
 * @template Row @param {string} key @param {string} title @param {string} width @param {(row: Row) => string} text
 * @param {Partial<Column<Row>>} [more] @returns {Column<Row>}
 */
export function numeric(key, title, width, text, more = {}) {
  return { key, title, width, number: true, fill: (cell, row) => say(cell, text(row)), ...more };
}

/** @template {{id: number}} Row */
export class Table {
  #columns;
  /** @type {Row[]} */ #rows = [];
  /** @type {{root: HTMLElement, cells: HTMLElement[], row: Row | undefined}[]} */ #lines = [];
  /** @type {number | null} The id of a row. */
  #chosen = null;
  #open;
  #isDue = false; // a frame was asked for
  #hasChanged = true; // rows, lines or the choice: not only where one looks
  #first = -1;

  /**
   * @param {string} label @param {Column<Row>[]} columns
   * @param {number} leastPx How wide it is at least, CSS pixels; where there is less room, one scrolls.
   * @param {{open: (row: Row) => void, sort: (key: string) => void}} does @param {AbortSignal} signal
   */
  constructor(label, columns, leastPx, { open, sort }, signal) {
    this.#columns = columns;
    this.#open = open;
    this.heads = columns.map((column) =>
      element(
        "div", { role: "columnheader", class: classOf(column) },
        element("button", { type: "button", signal, on: { click: () => sort(column.key) } }, column.title),
      ));
    this.head = element("div", { class: "table-line table-head", role: "row", "aria-rowindex": 1 }, ...this.heads);
    this.lines = element("div", { class: "table-lines", role: "rowgroup" });
    this.body = element("div", { class: "table-body" }, element("div", { role: "rowgroup", class: "table-top" }, this.head), this.lines);
    this.element = element(
      "div",
      {
        class: "table", tabindex: 0, role: "grid", "aria-label": label, "aria-rowcount": 1, "aria-colcount": columns.length,
        signal, on: { keydown: (event) => this.#key(event), click: (event) => this.#click(event) },
      },
      this.body,
    );
    this.element.style.setProperty("--least", `${leastPx}px`);
    this.element.style.setProperty("--columns", columns.map(({ width }) => width).join(" "));
    this.element.style.setProperty("--columns-narrow", columns.filter(({ narrow }) => narrow).map(({ width }) => width).join(" "));
    this.element.addEventListener("scroll", () => this.#drawSoon(), { passive: true, signal });
    const sizes = new ResizeObserver(() => this.#resized());
    sizes.observe(this.element);
    signal.addEventListener("abort", () => sizes.disconnect());
  }

  /** Show these rows, each with an `id`, in this order. @param {Row[]} rows */
  set(rows) {
    this.#rows = rows;
    this.body.style.height = `${(rows.length + 1) * ROW_PX}px`;
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.draw();
  }

  /** Say by which column the rows are sorted. @param {string} key @param {boolean} isDescending */
  sorted(key, isDescending) {
    this.#columns.forEach((column, at) => {
      const order = column.key === key ? (isDescending ? "descending" : "ascending") : "none";
      this.heads[at].setAttribute("aria-sort", order);
    });
  }

  /** Draw all lines with the next frame. */
  draw() {
    this.#hasChanged = true;
    this.#drawSoon();
  }

  #drawSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#draw();
    });
  }

  #draw() {
    const most = Math.max(0, this.#rows.length - this.#lines.length + SPARE);
    const first = Math.min(Math.max(0, Math.floor(this.element.scrollTop / ROW_PX)), most);
    if (first !== this.#first) this.lines.style.transform = `translateY(${first * ROW_PX}px)`;
    else if (!this.#hasChanged) return; // one has scrolled by less than a row
    this.#first = first;
    this.#hasChanged = false;
    this.#lines.forEach((line, at) => {
      const row = this.#rows[first + at];
      line.row = row;
      line.root.hidden = row === undefined;
      if (row === undefined) return;
      line.root.setAttribute("aria-rowindex", String(first + at + 2));
      line.root.setAttribute("aria-selected", String(row.id === this.#chosen));
      line.root.classList.toggle("odd", (first + at) % 2 === 1);
      this.#columns.forEach((column, place) => column.fill(line.cells[place], row));
    });
  }

  #resized() {
    const wanted = Math.ceil(this.element.clientHeight / ROW_PX) + SPARE;
    while (this.#lines.length < wanted) {
      const cells = this.#columns.map((column) => element("div", { role: "gridcell", class: classOf(column) }));
      const root = element("div", { class: "table-line", role: "row" }, ...cells);
      this.#lines.push({ root, cells, row: undefined });
      this.lines.append(root);
    }
    for (const { root } of this.#lines.splice(wanted)) root.remove();
    this.draw();
  }

  /** @param {Event} event */
  #click(event) {
    const line = this.#lines.find(({ root }) => root.contains(/** @type {Node} */ (event.target)));
    if (line?.row) this.#open(line.row);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const page = Math.max(1, this.#lines.length - SPARE - 2);
    const at = this.#rows.findIndex(({ id }) => id === this.#chosen);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.#rows.length - 1 };
    if (event.key === "Enter" && at >= 0 && event.target === this.element) {
      this.#open(this.#rows[at]);
    } else if (event.key in moves && this.#rows.length) {
      event.preventDefault();
      const next = Math.min(Math.max(0, moves[event.key]), this.#rows.length - 1);
      this.#chosen = this.#rows[next].id;
      this.#show(next);
      this.draw();
    }
  }

  /** @param {number} at */
  #show(at) {
    const { scrollTop, clientHeight } = this.element;
    const top = at * ROW_PX;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + 2 * ROW_PX > scrollTop + clientHeight) this.element.scrollTop = top + 2 * ROW_PX - clientHeight;
  }
}

/** @param {Column<any>} column */
function classOf({ number, narrow, key }) {
  return ["cut", `column-${key}`, number ? "number" : "", narrow ? "" : "wide"].filter(Boolean).join(" ");
}
