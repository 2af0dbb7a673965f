/**
 * Messages: the live stream under a prefix, the busiest topics in it, and a form that publishes.
 *
 * Owner of the state: what is opened (which prefix is subscribed, what was counted); each part owns its own.
 * Invariants: a message is handled in constant time and drawn at most once a frame; figures and tables are drawn twice a
 * second, so the view keeps up with any rate that the browser can parse, and shows how many messages it did not show.
 */

import { element, say } from "../parts/element.js";
import { whole } from "../parts/figures.js";
import { eachFrame, every } from "../parts/timing.js";
import { words } from "../words.js";
import { publishing } from "./messages/publishing.js";
import { Stream } from "./messages/stream.js";
import { Topics } from "./messages/topics.js";

/** Fast enough to look live, slow enough to be read, milliseconds. */
const FIGURES_MS = 500;

/** What begins so is the hub's own; it is shown to those who ask for it, lest it fill the view of an idle hub. */
const RESERVED = "$hub/";

/** @type {import("../shell/views.js").View} */
export const messages = {
  name: "messages",
  title: words.messages.title,
  isFor: (session) => session.may("subscribe") || session.may("publish"),
  open: (shell, signal) => new Messages(shell, signal),
};

class Messages {
  #shell;
  #client;
  #subscription = null;
  #received = 0;
  #dropped = 0;
  #prefix = null;

  constructor(shell, signal) {
    this.#shell = shell;
    this.#client = shell.session.client;
    this.#make(signal);
    this.stream = new Stream(this.streamParts, (row) => this.#inspect(row));
    this.topics = new Topics(this.topicRows, this.otherTopics, (topic) => this.#go(topic));
    const offs = [
      this.#client.on("dropped", (count) => {
        this.#dropped += count;
      }),
      this.#client.on("error", (error) => this.#complain(error)),
      this.#client.on("open", () => this.#complain(null)),
    ];
    signal.addEventListener("abort", () => {
      for (const off of offs) off();
      this.#subscription?.unsubscribe();
    });
    eachFrame(() => this.stream.draw(), signal);
    every(FIGURES_MS, () => this.#draw(), signal);
  }

  /** Another prefix begins anew, and so does the same one when it is asked for again. */
  show({ parameters }) {
    const prefix = parameters.get("prefix") ?? "";
    this.prefix.value = prefix;
    if (prefix === this.#prefix && this.#subscription?.active) return;
    this.#prefix = prefix;
    this.#subscribe(prefix);
  }

  #subscribe(prefix) {
    this.stream.clear();
    this.topics.clear();
    this.#received = this.#dropped = 0;
    this.#subscription?.unsubscribe();
    this.#subscription = null;
    this.streamParts.viewport.setAttribute("aria-busy", "true");
    try {
      const hidesHub = !prefix.startsWith("$");
      this.#subscription = this.#client.subscribe(prefix, ({ topic, value }) => {
        if (hidesHub && topic.startsWith(RESERVED)) return;
        this.#received += 1;
        this.topics.count(topic);
        this.stream.add(topic, value);
      });
      this.#complain(null);
      this.#settle(this.#subscription);
    } catch (error) {
      this.#complain(error);
    }
  }

  /** Say when the hub has the subscription: what is published from then on is shown. */
  async #settle(subscription) {
    await subscription.confirmed.catch(() => undefined); // a refusal comes as an error of the client, too
    if (subscription === this.#subscription) this.streamParts.viewport.setAttribute("aria-busy", "false");
  }

  #go(prefix) {
    this.#prefix = null;
    this.#shell.go("messages", [], { prefix });
  }

  /** Show an error under the toolbar, or take it away. */
  #complain(error) {
    this.problem.hidden = error === null;
    say(this.problem, error === null ? "" : `${error.code ? `${error.code}: ` : ""}${error.message}`);
  }

  #inspect({ topic, text }) {
    let pretty = text;
    try {
      pretty = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // a shortened value is no JSON: shown as it is
    }
    this.inspectedTopic.textContent = topic;
    this.inspectedValue.textContent = pretty;
    this.inspector.hidden = false;
  }

  #draw() {
    const { stream, topics } = this;
    const { isOpen } = this.#shell.session;
    say(this.receivedFigure, whole(this.#received));
    say(this.topicFigure, whole(topics.size));
    say(this.droppedFigure, whole(this.#dropped));
    this.droppedFigure.parentElement.classList.toggle("alarm", this.#dropped > 0);
    this.skipped.hidden = stream.skipped === 0;
    say(this.skipped, words.messages.skipped(stream.skipped));
    say(this.hold, stream.held ? words.messages.resume : words.messages.pause);
    this.hold.setAttribute("aria-pressed", String(stream.held));
    this.emptyConnected.hidden = !isOpen;
    this.emptyDisconnected.hidden = isOpen;
    topics.draw();
  }

  #make(signal) {
    const { messages: said } = words;
    const figure = (id, label, title, box) => {
      const output = element("output", { id }, "0");
      this.figures.append(element("div", { class: "figure", title, id: box }, element("span", { class: "label" }, label), output));
      return output;
    };
    this.figures = element("section", { class: "figures" });
    this.receivedFigure = figure("received", said.received, said.receivedHint);
    this.topicFigure = figure("topic-count", said.topics);
    this.droppedFigure = figure("dropped", said.missed, said.missedHint, "dropped-figure");

    const search = (event) => {
      event.preventDefault();
      this.#go(this.prefix.value);
    };
    this.prefix = element("input", {
      id: "prefix", type: "text", spellcheck: "false", placeholder: said.prefixHint, maxlength: 1024, "data-search": true,
    });
    this.skipped = element("span", { id: "skipped", class: "badge", hidden: true, title: said.skippedHint });
    this.hold = element(
      "button",
      { id: "hold", type: "button", "aria-pressed": "false", signal, on: { click: () => this.stream.pause(!this.stream.held) } },
      said.pause,
    );
    this.problem = element("p", { id: "problem", class: "notice", role: "alert", hidden: true });
    this.emptyConnected = element("span", { id: "empty-connected", hidden: true }, said.none[0], element("code", {}, said.none[1]));
    this.emptyDisconnected = element("span", { id: "empty-disconnected" }, said.disconnected);
    this.topicRows = element("tbody", { id: "topics" });
    this.otherTopics = element("p", { id: "other-topics", class: "quiet", hidden: true });

    const mayPublish = this.#shell.session.may("publish") && !this.#shell.wall;
    this.element = element(
      "div", { class: "messages" },
      this.figures,
      element(
        "section", { class: "card stream", "aria-label": said.title },
        element(
          "div", { class: "toolbar" },
          element(
            "form", { id: "filter", autocomplete: "off", signal, on: { submit: search } },
            element("label", { for: "prefix" }, said.prefix), this.prefix, element("button", { type: "submit" }, said.apply),
          ),
          this.skipped, element("span", { class: "spring" }), this.hold,
          element("button", { id: "clear", type: "button", signal, on: { click: () => this.#clear() } }, said.clear),
        ),
        this.problem,
        element("div", { class: "heads", "aria-hidden": "true" }, ...[said.time, said.topic, said.value].map((it) => element("span", {}, it))),
        this.#makeStream(said),
        this.#makeInspector(said, signal),
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
        mayPublish ? publishing(this.#client, signal) : null,
      ),
    );
  }

  #clear() {
    this.stream.clear();
    this.topics.clear();
    this.#complain(null);
  }

  #makeStream(said) {
    const rows = element("div", { id: "rows", class: "rows" });
    const spacer = element("div", { id: "spacer", class: "spacer" }, rows);
    const empty = element("p", { id: "empty", class: "empty" }, this.emptyConnected, this.emptyDisconnected);
    const attributes = { id: "stream", class: "viewport", tabindex: 0, role: "log", "aria-live": "off", "aria-label": said.stream, "aria-busy": "true" };
    const viewport = element("div", attributes, spacer, empty);
    this.streamParts = { viewport, spacer, rows, empty };
    return viewport;
  }

  #makeInspector(said, signal) {
    this.inspectedTopic = element("strong", { id: "inspected-topic" });
    this.inspectedValue = element("pre", { id: "inspected-value", tabindex: 0 });
    const close = () => {
      this.inspector.hidden = true;
    };
    this.inspector = element(
      "div", { id: "inspector", class: "inspector", hidden: true },
      element(
        "div", { class: "toolbar" },
        this.inspectedTopic, element("span", { class: "spring" }),
        element("button", { id: "inspector-close", type: "button", signal, on: { click: close } }, said.close),
      ),
      this.inspectedValue,
    );
    return this.inspector;
  }
}
