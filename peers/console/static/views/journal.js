/**
 * Journal: size, rate and retention (`$hub/journal`), and consumers (`$hub/consumers`), every two seconds. One record is read, for
 * the time of the oldest one.
 */

import { Chart, STEPS } from "../parts/chart.js";
import { card, complain, element, form, heads, say } from "../parts/element.js";
import { bytes, duration, moment, percent, reason, short, TIME, visible, whole } from "../parts/figures.js";
import { fileSink } from "../parts/file_sink.js";
import { poll } from "../parts/timing.js";
import { words } from "../words.js";

/**
 * @import { Consumer, Journal as Told } from "../feeds/services.d.ts"
 * @import { Progress, Told as WorkerTold } from "../parts/export_worker.js"
 * @import { Sink } from "../parts/file_sink.js"
 * @import { Session } from "../shell/session.js"
 * @import { Shell } from "../shell/views.js"
 */

const said = words.journal;
const JOURNAL_TOPIC = "$hub/journal";
const CONSUMERS_TOPIC = "$hub/consumers";

/** How often it is asked, milliseconds. */
const ASK_MS = 2_000;

/** What is shown in the chart: ten minutes. */
const SAMPLES = 300;

const perSecond = (/** @type {number | null} */ value) => (value === null ? short(value) : `${short(value)}/s`);

/** @type {import("../shell/views.js").View} */
export const journal = {
  name: "journal",
  title: words.journal.title,
  isFor: (session) => session.mayAsk(JOURNAL_TOPIC),
  open: (shell, signal) => new Journal(shell, signal),
};

class Journal {
  #session;
  /** @type {Told | null} The last answer. */
  #last = null;
  /** @type {number[]} */ #times = [];
  /** @type {(number | null)[]} */ #rates = [];
  /** @type {number[]} */ #waiting = [];
  /** @type {{id: string, first: number, at: number | null}} */
  #oldest = { id: "", first: -1, at: null };
  /** @type {Record<string, HTMLElement>} By `words.journal.labels`. */
  figures;
  /** @type {Record<string, HTMLElement>} By `words.journal.facts`. */
  facts;
  /** @type {Export} */
  export;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor({ session }, signal) {
    this.#session = session;
    this.sentence = element("p", { id: "journal-state", role: "status" }, said.asking);
    this.problem = element("p", { id: "journal-problem", class: "notice", role: "alert", hidden: true });
    this.card = element("section", { class: "card sentence", "aria-label": said.state }, this.sentence);
    this.figures = {};
    const figures = element("section", { class: "figures", "aria-label": said.figures });
    for (const [name, label] of Object.entries(said.labels)) {
      this.figures[name] = element("output", { id: `journal-${name}` }, "–");
      figures.append(element("div", { class: "figure", title: said.hints[name] }, element("span", { class: "label" }, label), this.figures[name]));
    }
    this.facts = {};
    const facts = element("dl", { class: "journal-facts" });
    for (const [name, label] of Object.entries(said.facts)) {
      this.facts[name] = element("dd", { id: `journal-${name}` }, "–");
      facts.append(element("div", { hidden: name === "missed" }, element("dt", {}, label), this.facts[name]));
    }
    this.rates = new Chart(said.charts.rate, [{ name: said.charts.rate, colour: "--accent", filled: true }], perSecond, STEPS.whole, "journal", signal);
    this.waits = new Chart(said.charts.waiting, [{ name: said.charts.waiting, colour: "--waiting", filled: true }], bytes, STEPS.bytes, "journal", signal);
    this.consumers = new Consumers();
    this.export = new Export(this.#session, signal);
    this.body = element(
      "div", { class: "stack", hidden: true },
      figures,
      element("section", { class: "charts", "aria-label": said.history }, this.rates.element, this.waits.element),
      card(said.about, {}, facts),
      this.export.element,
    );
    this.element = element("div", { class: "journal stack" }, this.card, this.problem, this.body, this.consumers.element);
    poll(session, ASK_MS, () => this.#ask(), signal, (error) => complain(this.problem, error));
    session.onReady(() => this.#forget(), signal);
  }

  async #ask() {
    const told = await this.#session.ask(JOURNAL_TOPIC, null);
    const consumers = await this.#askConsumers(told !== null);
    complain(this.problem, null);
    this.#draw(told, consumers !== null);
    this.consumers.set(consumers);
    if (told !== null) await this.#findOldest(told);
  }

  // Return how all consumers stand; null where there can be none, or where one may not know.
  /** @param {boolean} records @returns {Promise<Consumer[] | null>} */
  async #askConsumers(records) {
    if (!this.#session.mayAsk(CONSUMERS_TOPIC)) return null;
    try {
      return await this.#session.ask(CONSUMERS_TOPIC, null);
    } catch (error) {
      if (records || !this.#session.isOpen) throw error;
      return null; // neither a journal here, nor one elsewhere that is used from here
    }
  }

  /** Another hub may be behind the same address now, and its counters begin anew. */
  #forget() {
    this.#last = null;
    this.consumers.forget();
  }

  /** @param {Told | null} told @param {boolean} hasConsumers */
  #draw(told, hasConsumers) {
    this.body.hidden = told === null;
    if (told === null) {
      this.card.dataset.state = "none";
      say(this.sentence, hasConsumers ? said.elsewhere : said.none);
      return;
    }
    const rate = this.#rate(told);
    this.card.dataset.state = told.error ? "bad" : told.waiting_bytes >= told.buffer_bytes ? "slow" : "good";
    say(this.sentence, told.error ? said.failed(told.error) : told.waiting_bytes >= told.buffer_bytes ? said.behind : said.records(told.topics));
    const { figures } = this;
    say(figures.rate, perSecond(rate));
    say(figures.records, short(told.committed - told.first));
    say(figures.size, bytes(told.size_bytes));
    say(figures.waiting, bytes(told.waiting_bytes));
    say(figures.lost, whole(told.lost_messages_total));
    figures.lost.parentElement?.classList.toggle("alarm", told.lost_messages_total > 0);
    say(this.facts.range, said.range(told.first, told.committed));
    say(this.facts.kept, said.kept(bytes(told.keep_bytes), duration(told.keep_s), percent(Math.round((1_000 * told.size_bytes) / told.keep_bytes) / 1_000)));
    say(this.facts.pauses, said.pauses(told.pauses_total, bytes(told.buffer_bytes)));
    say(this.facts.reading, said.reading(told.fetches, told.readers));
    say(this.facts.staged, said.staged(told.staged_transactions, bytes(told.staged_bytes)));
    this.export.set(told);
    this.#drawTier(told);
    this.#keep(rate, told.waiting_bytes);
  }

  /** Messages recorded a second since the last look; null at the first. @param {Told} told */
  #rate(told) {
    const before = this.#last;
    this.#last = told;
    if (before === null || before.id !== told.id || before.recorded_messages_total > told.recorded_messages_total) return null;
    const seconds = told.at_s - before.at_s;
    return seconds > 0 ? (told.recorded_messages_total - before.recorded_messages_total) / seconds : null;
  }

  /** @param {number | null} rate @param {number} waiting */
  #keep(rate, waiting) {
    this.#times.push(Date.now() / 1000);
    this.#rates.push(rate);
    this.#waiting.push(waiting);
    for (const kept of [this.#times, this.#rates, this.#waiting]) if (kept.length > SAMPLES) kept.shift();
    this.rates.set(this.#times, [this.#rates]);
    this.waits.set(this.#times, [this.#waiting]);
  }

  /** @param {Told} told */
  #drawTier({ tier, committed }) {
    if (tier === null) say(this.facts.tier, said.noTier);
    else if (tier.error) say(this.facts.tier, said.tierFailed(tier.error));
    else say(this.facts.tier, said.tier(whole(Math.max(0, committed - tier.next)), whole(tier.files), bytes(tier.size_bytes), whole(tier.first)));
    const missed = tier?.missed ?? 0;
    /** @type {HTMLElement} */ (this.facts.missed.parentElement).hidden = missed === 0;
    say(this.facts.missed, whole(missed));
  }

  /** @param {Told} told */
  async #findOldest({ id, first, committed }) {
    if (this.#oldest.id === id && this.#oldest.first === first && this.#oldest.at !== null) {
      this.#sayOldest();
      return;
    }
    this.#oldest = { id, first, at: null };
    if (this.#session.may("journal") && committed > first) {
      const records = this.#session.client.read("", { startTime: new Date(0), columns: ["offset", "time"] });
      for await (const { time } of records) {
        this.#oldest.at = Number(time) / 1000;
        break;
      }
    }
    this.#sayOldest();
  }

  #sayOldest() {
    const { at } = this.#oldest;
    say(this.facts.oldest, at === null ? words.journal.unknown : words.journal.since(moment(at), duration(Math.max(0, Date.now() / 1000 - at))));
  }
}

// The named consumers of a journal: how far behind each is, and whether it gets nearer.

/** So many are shown. */
const ROWS = 200;

/** So much less a second is no progress worth telling. */
const LEAST_RATE = 0.05;

/** A query that is behind and was not heard of for so long is in trouble, s: micro-batches may take some time. */
const SILENT_S = 60;

class Consumers {
  /** @type {Map<string, {lag: number, at: number}>} By name. */
  #before = new Map();

  constructor() {
    this.rows = element("tbody", { id: "consumers" });
    this.told = element("p", { id: "consumers-told", class: "quiet told-line", role: "status" });
    this.table = element("table", { class: "consumers" }, heads(said.columns), this.rows);
    this.element = card(said.consumers, { hidden: true }, this.table, this.told);
  }

  forget() {
    this.#before.clear();
  }

  /** Show them as the hub lists them; null hides it all. @param {Consumer[] | null} listed */
  set(listed) {
    this.element.hidden = listed === null;
    if (listed === null) return;
    const now = performance.now() / 1000;
    const rates = new Map(listed.map((one) => [one.name, this.#rate(one, now)]));
    this.#before = new Map(listed.map(({ name, lag }) => [name, { lag, at: now }]));
    const shown = [...listed].sort((one, other) => other.lag - one.lag || (one.name < other.name ? -1 : 1)).slice(0, ROWS);
    this.table.hidden = listed.length === 0;
    this.rows.replaceChildren(...shown.map((one) => row(one, rates.get(one.name) ?? null)));
    const left = listed.length - shown.length;
    say(this.told, listed.length === 0 ? said.noConsumers : left > 0 ? said.others(left) : "");
  }

  // How fast one falls behind, records a second; null at the first look.
  /** @param {Consumer} consumer @param {number} now */
  #rate({ name, lag }, now) {
    const before = this.#before.get(name);
    return before === undefined || now <= before.at ? null : (lag - before.lag) / (now - before.at);
  }
}

/** @param {Consumer} one @param {number | null} rate */
function row(one, rate) {
  const [state, text] = standing(one, rate);
  const prefixes = one.prefixes.map(visible).join(" ") || "/";
  return element(
    "tr", { dataset: { state } },
    element("td", { class: "cut", title: visible(one.name) }, visible(one.name)),
    element("td", { class: "cut", title: prefixes }, prefixes),
    element("td", {}, whole(one.lag)),
    element("td", { class: "cut standing", title: text }, text),
    element("td", {}, whole(one.members)),
    element("td", {}, whole(one.out)),
    element("td", {}, short(one.counters.acknowledged_total)),
    element("td", {}, short(one.counters.redelivered_total)),
    element("td", {}, short(one.counters.dead_total)),
  );
}

// Return how one does: `good`, `slow` or `bad`, and in words.
/** @param {Consumer} consumer @param {number | null} rate @returns {[state: string, text: string]} */
function standing({ error, lag, members, committed_s }, rate) {
  if (error) return ["bad", visible(error)];
  const [state, text] = pace(lag, rate);
  if (typeof committed_s === "number") { // a query, which reads without a client here
    return [lag > 0 && committed_s > SILENT_S ? "bad" : state, said.query(text, duration(committed_s))];
  }
  return lag > 0 && members === 0 ? ["bad", said.nobody] : [state, text];
}

/** Return how one gets on. @param {number} lag @param {number | null} rate @returns {[state: string, text: string]} */
function pace(lag, rate) {
  if (lag === 0) return ["good", said.keepsUp];
  if (rate === null) return ["slow", said.waits];
  if (rate > LEAST_RATE) return ["bad", said.fallsBehind(short(rate))];
  if (rate < -LEAST_RATE) return ["slow", said.catchesUp(duration(lag / -rate))];
  return ["slow", said.stays];
}

// Export: a range of the journal as a file of NDJSON, read by a thread, at most one at a time, until the view ends.

/**
 * @typedef {{worker: Worker | null, sink: Sink | null, written: number, from: number | null, to: number | null,
 *   began: number | null}} Running
 *   `sink`: Null until the reader has chosen. `written`: Bytes. `from`: Milliseconds since 1970. `began`: When the
 *   first record was taken.
 */

class Export {
  #session;
  /** @type {Told | null} As the hub said last. */
  #range = null;
  /** @type {Running | null} */ #running = null;

  /** @param {Session} session @param {AbortSignal} signal Of the view. */
  constructor(session, signal) {
    this.#session = session;
    const time = (/** @type {string} */ id, /** @type {string} */ label) => element("input", { id, type: "text", placeholder: said.exportTime, pattern: TIME, "aria-label": label });
    this.prefix = element("input", { id: "export-prefix", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.exportPrefix, "aria-label": said.exportPrefix });
    this.from = time("export-from", said.exportFrom);
    this.to = time("export-to", said.exportTo);
    this.begin = element("button", { id: "export-begin", type: "submit", class: "primary" }, said.exportBegin);
    this.cancel = element("button", { id: "export-cancel", type: "button", hidden: true, signal, on: { click: () => this.#cancel() } }, said.exportCancel);
    this.bar = element("progress", { id: "export-bar", max: 1, value: 0, hidden: true, "aria-label": said.exportBar });
    this.told = element("p", { id: "export-told", class: "quiet told-line", role: "status" }, said.exportHint);
    const go = () => this.#begin().catch((error) => this.#end(said.exportFailed(reason(error))));
    this.element = card(
      said.exportTitle, { class: "card export", hidden: !session.may("journal") },
      form(
        go, { signal },
        this.prefix, element("label", {}, said.exportFrom, this.from), element("label", {}, said.exportTo, this.to), this.begin, this.cancel,
      ),
      this.bar, this.told,
    );
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  // There are these offsets by now: what is read ends where the journal ended when reading began, about there.
  /** @param {Told} range */
  set(range) {
    this.#range = range;
  }

  async #begin() {
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
    const worker = new Worker(new URL("../parts/export_worker.js", import.meta.url), { type: "module", name: "export" });
    running.worker = worker;
    worker.addEventListener("message", (/** @type {MessageEvent<WorkerTold>} */ { data }) => {
      if (this.#running === running) this.#hear(running, sink, worker, data).catch((error) => this.#fail(running, reason(error)));
    });
    worker.addEventListener("error", ({ message }) => this.#fail(running, message ?? words.shell.away));
    worker.postMessage({ command: "begin", token: this.#session.token, prefix, from: running.from, to: running.to });
  }

  /** @param {Running} running @param {Sink} sink @param {Worker} worker @param {WorkerTold} told */
  async #hear(running, sink, worker, told) {
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

/** What a field for times says, by the reader's clock; null for nothing. @param {HTMLInputElement} field */
function milliseconds(field) {
  return field.value === "" ? null : new Date(field.value.replace(" ", "T")).getTime();
}
