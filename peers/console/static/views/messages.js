/**
 * Messages: under a prefix, live, or from the journal; the busiest topics; and a form that publishes.
 *
 * ```
 * parts/feed.js ── rows ──▶ stream ── selected ──▶ inspector, selection (export, publish again)
 *      ▲                      ▲
 *      └─ prefix, labels, search ─ the address ─ at, offset ─▶ history
 * ```
 *
 * The page is given a thousand rows a second at most, and says what share of all messages that is.
 */

import { card, element, form, heads, say } from "../parts/element.js";
import { Feed } from "../parts/feed.js";
import { complaint, moment, reason, TIME, visible, whole } from "../parts/figures.js";
import { lineOf } from "../parts/file_sink.js";
import { eachFrame, every } from "../parts/timing.js";
import { valueTree } from "../parts/value_tree.js";
import { words } from "../words.js";
import { Stream, Topics } from "./messages/stream.js";

/**
 * @import { Attributes } from "../parts/element.js"
 * @import { From, Oldest, Told } from "../parts/feed.js"
 * @import { Row } from "../parts/sampler.js"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.messages;

/** Fast enough to look live, slow enough to be read, milliseconds. */
const FIGURES_MS = 500;

/** "1 in 40 shown" is said of so many milliseconds, and from this part on. */
const SHARE_MS = 2_000;
const SHARE_FROM = 1.5;

/** Whoever goes to the journal begins so long ago, milliseconds. */
const HISTORY_MS = 300_000;

/**
 * @typedef {{prefix: string, labels: string, search: string, at: string, offset: string}} Wanted
 *   What is looked at, as it stands in the address.
 * @typedef {{prefix?: string, labels?: string, search?: string, at?: string, offset?: string | number}} Changes
 */

/** @type {import("../shell/views.js").View} */
export const messages = {
  name: "messages",
  title: words.messages.title,
  isFor: (session) => session.may("subscribe") || session.may("publish"),
  open: (shell, signal) => new Messages(shell, signal),
};

class Messages {
  #shell;
  #feed;
  /** @type {Wanted | null} */ #place = null;
  #counted = { received: 0, matched: 0, taken: 0 };
  #dropped = 0;
  #historyTopics = 0;
  /** @type {{at: number, matched: number, shown: number}[]} Of the last moments. */
  #shares = [];
  #isHeld = false; // the last state that the feed was given
  /** @type {HTMLElement} */ receivedFigure;
  /** @type {HTMLElement} */ topicFigure;
  /** @type {HTMLElement} */ droppedFigure;
  /** @type {HTMLInputElement} */ prefix;
  /** @type {HTMLInputElement} */ labels;
  /** @type {HTMLInputElement} */ search;
  /** @type {HTMLButtonElement} */ hold;
  /** @type {HTMLButtonElement} */ turn;
  /** @type {import("./messages/stream.js").Elements} */ streamParts;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    const figure = (/** @type {string} */ id, /** @type {string} */ label, /** @type {string} */ title = "", /** @type {string} */ box = "") => {
      const output = element("output", { id }, "0");
      this.figures.append(element("div", { class: "figure", title: title || null, id: box || null }, element("span", { class: "label" }, label), output));
      return output;
    };
    this.figures = element("section", { class: "figures" });
    this.receivedFigure = figure("received", said.received, said.receivedHint);
    this.topicFigure = figure("topic-count", said.topics);
    this.droppedFigure = figure("dropped", said.missed, said.missedHint, "dropped-figure");
    this.skipped = element("span", { id: "skipped", class: "badge", hidden: true, title: said.skippedHint });
    this.share = element("span", { id: "share", class: "badge", hidden: true, title: said.shareHint });
    this.problem = element("p", { id: "problem", class: "notice", role: "alert", hidden: true });
    this.emptyConnected = element("span", { id: "empty-connected", hidden: true }, said.none[0], element("code", {}, said.none[1]));
    this.emptyDisconnected = element("span", { id: "empty-disconnected" }, said.disconnected);
    this.topicRows = element("tbody", { id: "topics" });
    this.otherTopics = element("p", { id: "other-topics", class: "quiet", hidden: true });

    const { session, wall } = this.#shell;
    const mayPublish = session.may("publish") && !wall;
    const viewport = this.#makeStream();
    this.inspector = new Inspector(signal);
    this.stream = new Stream(this.streamParts, (row) => this.inspector.show(row));
    this.selection = new Selection(this.stream, mayPublish ? session.client : null, signal);
    this.history = new History((place) => this.#go(place), signal);
    this.element = element(
      "div", { class: "messages" },
      this.figures,
      element(
        "section", { class: "card stream", "aria-label": said.title },
        this.#makeFilter(signal),
        this.#makeTools(signal),
        this.history.element,
        this.problem,
        element("div", { class: "heads", "aria-hidden": "true" }, ...[said.time, said.topic, said.value].map((it) => element("span", {}, it))),
        viewport,
        this.inspector.element,
      ),
      element(
        "aside", {},
        element(
          "section", { class: "card", "aria-label": said.topics },
          element("h2", {}, said.busiest),
          element("table", {}, heads([said.topic, said.count, said.perSecond]), this.topicRows),
          this.otherTopics,
        ),
        mayPublish ? publishing(session.client, signal) : null,
      ),
      this.selection.dialog,
    );
    this.topics = new Topics(this.topicRows, this.otherTopics, (topic) => this.#go({ prefix: topic, labels: "", search: "" }));
    this.#feed = new Feed(shell.session.token, {
      rows: (told) => this.#take(told),
      topics: (told) => this.topics.draw(told),
      confirmed: () => this.#settled(),
      history: (told) => this.#showHistory(told),
      range: ({ oldest }) => this.history.setRange(oldest),
      dropped: ({ count }) => {
        this.#dropped += count;
      },
      problem: (error) => this.#fail(error),
      open: () => this.#complain(null),
    }, signal);
    eachFrame(() => this.#drawFrame(), signal);
    every(FIGURES_MS, () => this.#draw(), signal);
  }

  /** Another place starts again, and so does the same one when it is asked for again. @param {Place} place */
  show({ parameters }) {
    const said = (/** @type {string} */ name) => parameters.get(name) ?? "";
    const place = { prefix: said("prefix"), labels: said("labels"), search: said("search"), at: said("at"), offset: said("offset") };
    this.prefix.value = place.prefix;
    this.labels.value = place.labels;
    this.search.value = place.search;
    if (JSON.stringify(place) === JSON.stringify(this.#place)) return;
    this.#place = place;
    this.#begin(place);
  }

  get #isHistory() {
    return this.#place !== null && (this.#place.at !== "" || this.#place.offset !== "");
  }

  /** @param {Wanted} wanted */
  #begin({ prefix, labels, search, at, offset }) {
    this.#clear();
    this.#isHeld = false;
    this.topics.clear();
    this.#counted = { received: 0, matched: 0, taken: 0 };
    this.#dropped = this.#historyTopics = 0;
    this.#shares = [];
    this.streamParts.viewport.setAttribute("aria-busy", "true");
    this.history.element.hidden = !this.#isHistory;
    this.hold.hidden = this.#isHistory;
    this.turn.setAttribute("aria-pressed", String(this.#isHistory));
    say(this.turn, this.#isHistory ? words.messages.live : words.messages.history);
    if (!this.#isHistory) {
      this.stream.pause(false);
      const list = labels.split(",").map((label) => label.trim()).filter(Boolean);
      this.#feed.follow({ prefix, labels: list, search });
      return;
    }
    const from = offset === "" ? { at: Date.parse(at) } : { offset: Number(offset) };
    if (Object.values(from).some(Number.isNaN)) {
      this.#fail(new TypeError(words.messages.noPlace));
      return;
    }
    this.history.begin(from);
    this.#feed.history({ prefix, search, ...from });
    this.#feed.range(prefix);
  }

  /** @param {Told["rows"]} told */
  #take({ rows, ...counted }) {
    this.#counted = counted;
    for (const row of rows) this.stream.add(row);
  }

  /** @param {Told["history"]} told */
  #showHistory(told) {
    this.stream.replace(told.rows);
    this.#historyTopics = new Set(told.rows.map(({ topic }) => topic)).size;
    this.history.show(told);
    this.#counted = { received: told.looked, matched: told.rows.length, taken: told.rows.length };
    this.#settled();
  }

  /** The hub has the subscription, and what is published from now on is shown; or the journal was read. */
  #settled() {
    this.streamParts.viewport.setAttribute("aria-busy", "false");
  }

  /** @param {Changes} changes */
  #go(changes) {
    const { prefix, labels, search } = { ...this.#place, ...changes };
    const { at, offset } = changes;
    this.#place = null;
    this.#shell.go("messages", [], { prefix, labels, search, at, offset });
  }

  /** @param {unknown} error */
  #fail(error) {
    this.history.fail();
    this.#complain(error);
  }

  /** @param {unknown} error */
  #complain(error) {
    this.problem.hidden = error === null;
    const { first: oldest } = /** @type {{first?: number}} */ (error ?? {});
    const first = oldest === undefined ? "" : ` ${words.messages.oldest(oldest)}`;
    say(this.problem, error === null ? "" : `${complaint(error)}${first}`);
  }

  /** While the list is held, the thread need not send rows. */
  #tellHeld() {
    const { held } = this.stream;
    if (held !== this.#isHeld && !this.#isHistory) this.#feed.hold(held);
    this.#isHeld = held;
  }

  #drawFrame() {
    this.#tellHeld();
    this.stream.draw();
    this.selection.draw();
  }

  #draw() {
    const { stream } = this;
    const { isOpen } = this.#shell.session;
    const { received, matched, taken } = this.#counted;
    const skipped = matched - taken + stream.skipped;
    say(this.receivedFigure, whole(received));
    say(this.topicFigure, whole(this.#isHistory ? this.#historyTopics : this.topics.size));
    say(this.droppedFigure, whole(this.#dropped));
    this.droppedFigure.parentElement?.classList.toggle("alarm", this.#dropped > 0);
    this.skipped.hidden = skipped === 0;
    say(this.skipped, words.messages.skipped(skipped));
    this.#drawShare(matched, matched - skipped);
    say(this.hold, stream.held ? words.messages.resume : words.messages.pause);
    this.hold.setAttribute("aria-pressed", String(stream.held));
    this.emptyConnected.hidden = !isOpen || this.#place?.at !== "" || this.#place?.offset !== "";
    this.emptyDisconnected.hidden = isOpen;
  }

  /** @param {number} matched @param {number} shown */
  #drawShare(matched, shown) {
    const at = performance.now();
    this.#shares.push({ at, matched, shown });
    while (this.#shares.length > 2 && at - this.#shares[1].at >= SHARE_MS) this.#shares.shift();
    const first = this.#shares[0];
    const ratio = (matched - first.matched) / Math.max(1, shown - first.shown);
    this.share.hidden = this.stream.held || ratio < SHARE_FROM;
    say(this.share, words.messages.share(whole(Math.round(ratio))));
  }

  #clear() {
    this.stream.clear();
    this.inspector.show(null);
    this.#complain(null);
  }

  /** @param {AbortSignal} signal */
  #makeFilter(signal) {
    const field = (/** @type {string} */ id, /** @type {string} */ hint, /** @type {Attributes} */ more = {}) => element("input", { id, type: "text", spellcheck: "false", placeholder: hint, maxlength: 1024, ...more });
    this.prefix = field("prefix", said.prefixHint, { "data-search": true });
    this.labels = field("labels", said.labelsHint);
    this.search = field("search", said.searchHint);
    const apply = () => {
      const { at, offset } = this.#place ?? {};
      this.#go({ prefix: this.prefix.value, labels: this.labels.value, search: this.search.value, at, offset });
    };
    return form(
      apply, { id: "filter", signal },
      element("label", { for: "prefix" }, said.prefix), this.prefix,
      element("label", { for: "labels" }, said.labels), this.labels,
      element("label", { for: "search" }, said.search), this.search,
      element("button", { type: "submit" }, said.apply),
    );
  }

  /** @param {AbortSignal} signal */
  #makeTools(signal) {
    const { session } = this.#shell;
    /** @param {string} id @param {string} text @param {() => void} click @param {Attributes} [more] */
    const button = (id, text, click, more = {}) => element("button", { id, type: "button", signal, on: { click }, ...more }, text);
    const turn = () => {
      this.stream.pause(!this.stream.held);
      this.#tellHeld(); // before anything else comes
    };
    this.hold = button("hold", said.pause, turn, { "aria-pressed": "false" });
    const records = Boolean(session.welcome?.journal);
    this.turn = button(
      "turn", said.history,
      () => this.#go(this.#isHistory ? {} : { at: new Date(Date.now() - HISTORY_MS).toISOString() }),
      { "aria-pressed": "false", hidden: !session.may("journal"), disabled: !records, title: records ? said.historyHint : said.noJournal },
    );
    return element(
      "div", { class: "toolbar tools" },
      this.turn, this.hold, button("clear", said.clear, () => this.#clear()),
      this.share, this.skipped, element("span", { class: "spring" }),
      this.selection.told, this.selection.export, this.selection.replay,
    );
  }

  #makeStream() {
    const rows = element("div", { id: "rows", class: "rows" });
    const spacer = element("div", { id: "spacer", class: "spacer" }, rows);
    const empty = element("p", { id: "empty", class: "empty" }, this.emptyConnected, this.emptyDisconnected);
    const attributes = { id: "stream", class: "viewport", tabindex: 0, role: "log", "aria-live": "off", "aria-label": said.stream, "aria-busy": "true" };
    const viewport = element("div", attributes, spacer, empty);
    this.streamParts = { viewport, spacer, rows, empty };
    return viewport;
  }
}

// A form that publishes one message, and says when the hub has it. Owner of the state: its fields.

/** Return the form, in its card. @param {import("../hub.js").Client} client @param {AbortSignal} signal */
export function publishing(client, signal) {
  const topic = element("input", { id: "topic", type: "text", spellcheck: "false", required: true, maxlength: 1024, value: "/demo/hello" });
  const value = element("textarea", { id: "value", rows: 3, spellcheck: "false" }, '{"text": "hello"}');
  const told = element("span", { id: "published", role: "status" });
  const tell = (/** @type {string} */ text, /** @type {boolean} */ bad) => {
    told.textContent = text;
    told.classList.toggle("bad", bad);
  };
  const submit = async () => {
    const startedAt = performance.now();
    try {
      await client.publish(topic.value, parsed(value.value), { confirm: true });
      tell(said.published(performance.now() - startedAt), false);
    } catch (error) {
      tell(complaint(error), true);
    }
  };
  return card(
    said.publish, {},
    form(
      submit, { id: "publish", class: null, signal },
      element("label", { for: "topic" }, said.topic), topic,
      element("label", { for: "value" }, said.valueHint), value,
      element("div", { class: "toolbar" }, element("button", { type: "submit", class: "primary" }, said.publish), told),
    ),
  );
}

// JSON if it reads as such, else text, as on the command line; what begins as JSON and is none is likely a mistake.
/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/^\s*[{["]/.test(text)) return text;
    throw new TypeError(words.messages.noJson(reason(error)), { cause: error });
  }
}

// The place in the journal: a slider from its oldest record to now, a time, an offset. It stands in the address
// (`at`, `offset`).

/** Steps of the slider. */
const STEPS = 1_000;

class History {
  /** @type {Oldest} */ #oldest = null;
  /** @type {number | null} */ #next = null;
  /** @type {number | null} Where what is shown begins, milliseconds since 1970; the range may be known later. */
  #at = null;

  /** @param {(place: {at?: string, offset?: number}) => void} go @param {AbortSignal} signal */
  constructor(go, signal) {
    const toTime = (/** @type {number | Date} */ at) => go({ at: new Date(at).toISOString() });
    this.slider = element("input", {
      id: "history-slider", type: "range", min: 0, max: STEPS, step: 1, value: STEPS, "aria-label": said.slider, signal,
      on: { input: () => this.#sayTime(), change: () => toTime(this.#timeOfSlider()) },
    });
    this.sliderTime = element("output", { id: "history-time", class: "small", for: "history-slider" });
    this.time = element("input", { id: "history-at", type: "text", placeholder: said.timeHint, pattern: TIME, "aria-label": said.time });
    this.offset = element("input", { id: "history-offset", type: "number", min: 0, step: 1, placeholder: said.offset, "aria-label": said.offset });
    this.told = element("span", { id: "history-told", class: "quiet", role: "status" });
    this.later = element("button", { id: "history-later", type: "button", disabled: true, signal, on: { click: () => go({ offset: this.#next ?? 0 }) } }, said.later);
    const jump = () => {
      if (this.offset.value !== "") go({ offset: Number(this.offset.value) });
      else if (this.time.value !== "") toTime(new Date(this.time.value.replace(" ", "T")));
    };
    this.element = element(
      "div", { id: "history", class: "history", hidden: true },
      element("div", { class: "toolbar" }, this.slider, this.sliderTime),
      form(
        jump, { id: "history-jump", signal },
        this.time, this.offset, element("button", { type: "submit" }, said.jump),
        this.later, element("span", { class: "spring" }), this.told,
      ),
    );
  }

  /** Show where one reads from. @param {From} from */
  begin({ at, offset }) {
    this.#next = null;
    this.later.disabled = true;
    this.offset.value = offset === undefined ? "" : String(offset);
    this.time.value = at === undefined ? "" : local(new Date(at));
    this.#at = at ?? null;
    if (at !== undefined) this.#setSlider(at);
    say(this.told, words.messages.reads);
  }

  /** The journal begins there; null for an empty one. @param {Oldest} oldest */
  setRange(oldest) {
    this.#oldest = oldest;
    this.slider.disabled = oldest === null;
    if (oldest === null) say(this.told, words.messages.emptyJournal);
    if (this.#at !== null) this.#setSlider(this.#at);
    else this.#sayTime();
  }

  /** Show what was read: rows, and how far. @param {Told["history"]} told */
  show({ rows, looked, next, more }) {
    this.#next = next;
    this.later.disabled = !more;
    say(this.told, words.messages.looked(whole(rows.length), whole(looked), rows[0]?.offset, rows.at(-1)?.offset));
    if (rows.length === 0) return;
    this.#at = rows[0].at;
    this.#setSlider(this.#at);
  }

  fail() {
    say(this.told, "");
  }

  /** @param {number} at */
  #setSlider(at) {
    if (this.#oldest === null) return;
    const whole = Math.max(1, Date.now() - this.#oldest.at);
    this.slider.value = String(Math.round((STEPS * (at - this.#oldest.at)) / whole));
    this.#sayTime();
  }

  #timeOfSlider() {
    const from = this.#oldest?.at ?? Date.now();
    return from + ((Date.now() - from) * Number(this.slider.value)) / STEPS;
  }

  #sayTime() {
    say(this.sliderTime, moment(this.#timeOfSlider() / 1000));
  }
}

/** As the field has it: by the reader's clock, of 24 hours, without a zone. @param {Date} time */
function local(time) {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, -1).replace("T", " ");
}

// Actions on the selected messages, or on all that are listed: show one, export, publish again. Publishing asks
// first; messages whose value was cut are left out, and counted.

/** So many are published before the hub is asked whether it has them. */
const TOGETHER = 100;

class Selection {
  /** @type {{whole: Row[], cut: number}} What is asked about. */
  rows = { whole: [], cut: 0 };
  #stream;
  #client;

  /**
   * @param {import("./messages/stream.js").Stream} stream
   * @param {import("../hub.js").Client | null} client Null if publishing is not allowed.
   * @param {AbortSignal} signal
   */
  constructor(stream, client, signal) {
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

class Inspector {
  /** @type {Row | null} */ #row = null;
  #asText = false;

  /** @param {AbortSignal} signal */
  constructor(signal) {
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
