/** Topics: a tree with rates (`$hub/topics`, a level at a time, every two seconds), and a page of one topic. */

import { complaint, whole } from "../parts/figures.js";
import { element, say } from "../parts/element.js";
import { poll } from "../parts/timing.js";
import { words } from "../words.js";
import { Detail } from "./topics/detail.js";
import { Tree } from "./topics/tree.js";

const TOPICS_TOPIC = "$hub/topics";

/** How often what is open is asked for, milliseconds. */
const ASK_MS = 2_000;

/** Levels that are asked for at one time, as the hub answers so many requests a turn. */
const LEVELS = 12;

/**
 * @import { Topics as Level } from "../feeds/services.d.ts"
 * @import { Place, Shell } from "../shell/views.js"
 */

/** @type {import("../shell/views.js").View} */
export const topics = {
  name: "topics",
  title: words.topics.title,
  isFor: (session) => session.mayAsk(TOPICS_TOPIC) && session.may("subscribe"),
  open: (shell, signal) => new Topics(shell, signal),
};

class Topics {
  #shell;
  #search = "";
  #signal;

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor(shell, signal) {
    this.#shell = shell;
    this.#signal = signal;
    const { topics: said } = words;
    this.detail = new Detail(shell, signal);
    this.tree = new Tree((prefix, isTopic) => this.#look(prefix, isTopic), () => this.#ask(), signal);
    this.told = element("p", { id: "topics-told", class: "quiet told-line", role: "status" });
    this.problem = element("p", { id: "topics-problem", class: "notice", role: "alert", hidden: true });
    const go = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#shell.go("topics", [], { search: this.search.value, topic: this.#topic });
    };
    this.search = element("input", { id: "topics-search", type: "text", spellcheck: "false", maxlength: 1024, placeholder: said.searchHint, "aria-label": said.search, "data-search": true });
    this.order = element(
      "select", { id: "topics-order", "aria-label": said.order, signal, on: { change: () => this.tree.sort(/** @type {import("./topics/tree.js").Order} */ (this.order.value)) } },
      ...Object.entries(said.orders).map(([value, text]) => element("option", { value }, text)),
    );
    this.element = element(
      "div", { class: "topics" },
      element(
        "section", { class: "card", "aria-label": said.title },
        element(
          "form", { id: "topics-filter", class: "toolbar", autocomplete: "off", signal, on: { submit: go } },
          this.search, element("button", { type: "submit" }, said.find), element("span", { class: "spring" }), this.order,
        ),
        this.problem,
        element("div", { class: "node heads", "aria-hidden": "true" }, element("span"), ...said.columns.map((it) => element("span", {}, it))),
        this.tree.element, this.told,
      ),
      this.detail.element,
    );
    shell.session.onReady(() => this.#ask(), signal);
    poll(shell.session, ASK_MS, () => this.#askAll(), signal, (error) => this.#complain(error));
  }

  #topic = "";

  /** @param {Place} place */
  show({ parameters }) {
    const search = parameters.get("search") ?? "";
    this.search.value = search;
    const topic = parameters.get("topic") ?? "";
    if (topic) this.detail.show(topic, !topic.endsWith("/"));
    if (topic !== this.#topic) this.tree.reveal(topic);
    this.#topic = topic;
    this.tree.mark(this.#topic);
    if (search === this.#search) return;
    this.#search = search;
    if (!search) this.tree.find(null);
    this.#ask();
  }

  /** @param {string} prefix @param {boolean} isTopic */
  #look(prefix, isTopic) {
    this.detail.show(prefix, isTopic);
    this.#shell.go("topics", [], { search: this.#search, topic: prefix });
  }

  #ask() {
    this.#askAll().catch((error) => {
      if (!this.#signal.aborted && this.#shell.session.isOpen) this.#complain(error);
    });
  }

  async #askAll() {
    const { session } = this.#shell;
    const search = this.#search;
    if (search) {
      const level = await session.ask(TOPICS_TOPIC, { search });
      if (search !== this.#search) return;
      this.tree.find(level);
      this.#say(level);
      return;
    }
    const open = [...this.tree.open];
    for (let first = 0; first < open.length && !this.#signal.aborted; first += LEVELS) {
      await Promise.all(open.slice(first, first + LEVELS).map(async (prefix) => {
        const level = await session.ask(TOPICS_TOPIC, { under: prefix });
        this.tree.set(prefix, level);
        if (prefix === "") this.#say(level);
      }));
    }
    this.tree.draw();
  }

  /** @param {Level} level */
  #say({ counted, rows }) {
    const { topics: said } = words;
    this.#complain(null);
    if (rows.length === 0) say(this.told, this.#search ? said.notFound : said.none);
    else say(this.told, said.has(whole(counted)));
  }

  /** @param {unknown} error */
  #complain(error) {
    this.problem.hidden = error === null;
    say(this.problem, error === null ? "" : complaint(error));
  }
}
