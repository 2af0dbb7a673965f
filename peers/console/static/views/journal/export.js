/** Export: a range of the journal as a file of NDJSON, read by a thread, at most one at a time, until the view ends. */

import { bytes, moment, reason, TIME, whole } from "../../parts/figures.js";
import { element, say } from "../../parts/element.js";
import { fileSink } from "../../parts/file_sink.js";
import { words } from "../../words.js";

/**
 * @import { Journal } from "../../feeds/services.d.ts"
 * @import { Progress, Told } from "../../parts/export_worker.js"
 * @import { Sink } from "../../parts/file_sink.js"
 * @import { Session } from "../../shell/session.js"
 *
 * @typedef {{worker: Worker | null, sink: Sink | null, written: number, from: number | null, to: number | null,
 *   began: number | null}} Running
 *   `sink`: Null until the reader has chosen. `written`: Bytes. `from`: Milliseconds since 1970. `began`: When the
 *   first record was taken.
 */

export class Export {
  #session;
  /** @type {Journal | null} As the hub said last. */
  #range = null;
  /** @type {Running | null} */ #running = null;

  /** @param {Session} session @param {AbortSignal} signal Of the view. */
  constructor(session, signal) {
    const { journal: said } = words;
    this.#session = session;
    const time = (/** @type {string} */ id, /** @type {string} */ label) => element("input", { id, type: "text", placeholder: said.exportTime, pattern: TIME, "aria-label": label });
    this.prefix = element("input", { id: "export-prefix", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.exportPrefix, "aria-label": said.exportPrefix });
    this.from = time("export-from", said.exportFrom);
    this.to = time("export-to", said.exportTo);
    this.begin = element("button", { id: "export-begin", type: "submit", class: "primary" }, said.exportBegin);
    this.cancel = element("button", { id: "export-cancel", type: "button", hidden: true, signal, on: { click: () => this.#cancel() } }, said.exportCancel);
    this.bar = element("progress", { id: "export-bar", max: 1, value: 0, hidden: true, "aria-label": said.exportBar });
    this.told = element("p", { id: "export-told", class: "quiet told-line", role: "status" }, said.exportHint);
    const go = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#begin().catch((error) => this.#end(said.exportFailed(reason(error))));
    };
    this.element = element(
      "section", { class: "card export", "aria-label": said.exportTitle, hidden: !session.may("journal") },
      element("h2", {}, said.exportTitle),
      element(
        "form", { class: "toolbar", autocomplete: "off", signal, on: { submit: go } },
        this.prefix, element("label", {}, said.exportFrom, this.from), element("label", {}, said.exportTo, this.to), this.begin, this.cancel,
      ),
      this.bar, this.told,
    );
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  // There are these offsets by now: what is read ends where the journal ended when reading began, about there.
  /** @param {Journal} range */
  set(range) {
    this.#range = range;
  }

  async #begin() {
    const { journal: said } = words;
    if (this.#running !== null || this.#range === null) return;
    /** @type {Running} */
    const running = { worker: null, sink: null, written: 0, from: milliseconds(this.from), to: milliseconds(this.to), began: null };
    const prefix = this.prefix.value;
    this.#running = running;
    const name = `journal-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.ndjson`;
    running.sink = await fileSink(name);
    if (this.#running !== running) {
      await running.sink?.abort(); // the view was left while the reader chose
      return;
    }
    if (running.sink === null) {
      this.#end(said.exportHint);
      return;
    }
    this.begin.disabled = true;
    this.cancel.hidden = this.bar.hidden = false;
    this.bar.value = 0;
    say(this.told, said.exportReads);
    const { sink } = running;
    const worker = new Worker(new URL("../../parts/export_worker.js", import.meta.url), { type: "module", name: "export" });
    running.worker = worker;
    worker.addEventListener("message", (/** @type {MessageEvent<Told>} */ { data }) => {
      if (this.#running === running) this.#hear(running, sink, worker, data).catch((error) => this.#fail(running, reason(error)));
    });
    worker.addEventListener("error", ({ message }) => this.#fail(running, message ?? words.shell.away));
    worker.postMessage({ command: "begin", token: this.#session.token, prefix, from: running.from, to: running.to });
  }

  /** @param {Running} running @param {Sink} sink @param {Worker} worker @param {Told} told */
  async #hear(running, sink, worker, told) {
    const { journal: said } = words;
    if (told.kind === "piece") {
      const size = told.bytes.byteLength;
      if (running.written + size > sink.room) {
        if (!(await this.#isSaved(running, sink))) return;
        this.#end(said.exportFull(bytes(running.written), bytes(sink.room)));
        return;
      }
      await sink.write(told.bytes);
      if (this.#running !== running) return;
      running.written += size;
      this.#show(running, told);
      worker.postMessage({ command: "taken" });
      return;
    }
    if (!(await this.#isSaved(running, sink))) return; // what was read before a failure is worth having
    const rounded = told.rounded ? ` ${said.exportRounded(whole(told.rounded))}` : "";
    const summary = said.exported(whole(told.records), bytes(running.written)) + rounded;
    this.#end(told.kind === "done" ? summary : said.exportBroken(`${told.code ? `${told.code}: ` : ""}${told.message}`, summary));
  }

  // Have what was written saved, which may take long, and cannot be taken back; false if the view was left meanwhile.
  /** @param {Running} running @param {Sink} sink */
  async #isSaved(running, sink) {
    this.cancel.hidden = true;
    running.worker?.terminate();
    await sink.close();
    return this.#running === running;
  }

  /** @param {Running} running @param {Progress} progress */
  #show(running, { records, first, next, at }) {
    running.began ??= at;
    const byTime = running.to === null ? 0 : (at - running.began) / Math.max(1, Math.min(running.to, Date.now()) - running.began);
    this.bar.value = Math.min(1, Math.max(byTime, (next - first) / Math.max(1, (this.#range?.committed ?? next) - first)));
    say(this.told, words.journal.exporting(whole(records), bytes(running.written), moment(at / 1000)));
  }

  /** @param {Running} running @param {string} message */
  #fail(running, message) {
    if (this.#running !== running) return;
    running.sink?.abort().catch(() => {}); // it may have failed itself
    this.#end(words.journal.exportFailed(message));
  }

  #cancel() {
    const running = this.#running;
    if (running === null) return;
    running.sink?.abort().catch(() => {});
    this.#end(words.journal.exportCancelled);
  }

  /** @param {string} text */
  #end(text) {
    this.#running?.worker?.terminate();
    this.#running = null;
    this.begin.disabled = false;
    this.cancel.hidden = this.bar.hidden = true;
    say(this.told, text);
  }

  #stop() {
    this.#running?.sink?.abort().catch(() => {});
    this.#running?.worker?.terminate();
    this.#running = null;
  }
}

// What a field for times says, by the reader's clock; null for nothing.
/** @param {HTMLInputElement} field */
function milliseconds(field) {
  return field.value === "" ? null : new Date(field.value.replace(" ", "T")).getTime();
}
