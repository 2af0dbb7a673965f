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

import { element, say } from "../parts/element.js";
import { Feed } from "../parts/feed.js";
import { complaint, reason, whole } from "../parts/figures.js";
import { eachFrame, every } from "../parts/timing.js";
import { words } from "../words.js";
import { History } from "./messages/history.js";
import { Inspector, Selection } from "./messages/selection.js";
import { Stream, Topics } from "./messages/stream.js";

/**
 * @import { Attributes } from "../parts/element.js"
 * @import { Told } from "../parts/feed.js"
 * @import { Place, Shell } from "../shell/views.js"
 */

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
 *
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
  #isHeld = false; // as the feed was told
  /** @type {Topics} */ topics;
  /** @type {Inspector} */ inspector;
  /** @type {Stream} */ stream;
  /** @type {Selection} */ selection;
  /** @type {History} */ history;
  /** @type {HTMLElement} */ figures;
  /** @type {HTMLElement} */ receivedFigure;
  /** @type {HTMLElement} */ topicFigure;
  /** @type {HTMLElement} */ droppedFigure;
  /** @type {HTMLElement} */ skipped;
  /** @type {HTMLElement} */ share;
  /** @type {HTMLElement} */ problem;
  /** @type {HTMLElement} */ emptyConnected;
  /** @type {HTMLElement} */ emptyDisconnected;
  /** @type {HTMLElement} */ topicRows;
  /** @type {HTMLElement} */ otherTopics;
  /** @type {HTMLInputElement} */ prefix;
  /** @type {HTMLInputElement} */ labels;
  /** @type {HTMLInputElement} */ search;
  /** @type {HTMLButtonElement} */ hold;
  /** @type {HTMLButtonElement} */ turn;
  /** @type {import("./messages/stream.js").Elements} */ streamParts;
  /** @type {HTMLElement} */ element;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    this.#make(signal);
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

  // Another place starts again, and so does the same one when it is asked for again.
  /** @param {Place} place */
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

  /** What comes while the list is held need not be sent here. */
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
  #make(signal) {
    const { messages: said } = words;
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
    const viewport = this.#makeStream(said);
    this.inspector = new Inspector(signal);
    this.stream = new Stream(this.streamParts, (row) => this.inspector.show(row));
    this.selection = new Selection(this.stream, mayPublish ? session.client : null, signal);
    this.history = new History((place) => this.#go(place), signal);
    this.element = element(
      "div", { class: "messages" },
      this.figures,
      element(
        "section", { class: "card stream", "aria-label": said.title },
        this.#makeFilter(said, signal),
        this.#makeTools(said, signal),
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
          element(
            "table", {},
            element("thead", {}, element("tr", {}, ...[said.topic, said.count, said.perSecond].map((it) => element("th", { scope: "col" }, it)))),
            this.topicRows,
          ),
          this.otherTopics,
        ),
        mayPublish ? publishing(session.client, signal) : null,
      ),
      this.selection.dialog,
    );
  }

  /** @param {typeof words.messages} said @param {AbortSignal} signal */
  #makeFilter(said, signal) {
    const field = (/** @type {string} */ id, /** @type {string} */ hint, /** @type {Attributes} */ more = {}) => element("input", { id, type: "text", spellcheck: "false", placeholder: hint, maxlength: 1024, ...more });
    this.prefix = field("prefix", said.prefixHint, { "data-search": true });
    this.labels = field("labels", said.labelsHint);
    this.search = field("search", said.searchHint);
    const apply = (/** @type {Event} */ event) => {
      event.preventDefault();
      const { at, offset } = this.#place ?? {};
      this.#go({ prefix: this.prefix.value, labels: this.labels.value, search: this.search.value, at, offset });
    };
    return element(
      "form", { id: "filter", class: "toolbar", autocomplete: "off", signal, on: { submit: apply } },
      element("label", { for: "prefix" }, said.prefix), this.prefix,
      element("label", { for: "labels" }, said.labels), this.labels,
      element("label", { for: "search" }, said.search), this.search,
      element("button", { type: "submit" }, said.apply),
    );
  }

  /** @param {typeof words.messages} said @param {AbortSignal} signal */
  #makeTools(said, signal) {
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

  /** @param {typeof words.messages} said */
  #makeStream(said) {
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

// Return the form, in its card.
/** @param {import("../hub.js").Client} client @param {AbortSignal} signal */
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
