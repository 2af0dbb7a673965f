/** Settings in force, with their values and origins (`$hub/settings`, every ten seconds). */

import { exact, visible } from "../parts/figures.js";
import { complain, element, heads, renew, say } from "../parts/element.js";
import { poll } from "../parts/timing.js";
import { fragmentOf } from "../shell/views.js";
import { words } from "../words.js";

const SETTINGS_TOPIC = "$hub/settings";
const ASK_MS = 10_000;

/** The origin of a value that is not configured. */
const DEFAULT = "default";

/**
 * @import { Setting } from "../feeds/services.d.ts"
 * @import { Place, Shell } from "../shell/views.js"
 */

const said = words.settings;

/** @type {import("../shell/views.js").View} */
export const settings = {
  name: "settings",
  title: words.settings.title,
  isFor: (session) => session.mayAsk(SETTINGS_TOPIC),
  open: (shell, signal) => new Settings(shell, signal),
};

class Settings {
  /** @type {Setting[]} */ #settings = [];

  /** @param {Shell} shell @param {AbortSignal} signal */
  constructor({ session }, signal) {
    const seek = () => {
      history.replaceState(null, "", fragmentOf("settings", [], { search: this.search.value, set: this.onlySet.checked ? 1 : "" }));
      this.#draw();
    };
    this.search = element("input", {
      id: "settings-search", type: "search", spellcheck: "false", maxlength: 1024, placeholder: said.search, "aria-label": said.search,
      "data-search": true, signal, on: { input: seek },
    });
    this.onlySet = element("input", { id: "only-set", type: "checkbox", signal, on: { change: seek } });
    this.count = element("span", { id: "settings-count", class: "quiet", role: "status" });
    this.problem = element("p", { id: "settings-problem", class: "notice", role: "alert", hidden: true });
    this.rows = element("tbody", { id: "settings" });
    this.element = element(
      "section", { class: "card settings", "aria-label": said.title },
      element(
        "div", { class: "toolbar" },
        this.search, element("label", { class: "choice" }, this.onlySet, said.onlySet), element("span", { class: "spring" }), this.count,
      ),
      this.problem,
      element("table", {}, heads(said.columns), this.rows),
    );
    const ask = async () => {
      this.#settings = await session.ask(SETTINGS_TOPIC, null);
      complain(this.problem, null);
      this.#draw();
    };
    poll(session, ASK_MS, ask, signal, (error) => complain(this.problem, error));
  }

  /** @param {Place} place */
  show({ parameters }) {
    this.search.value = parameters.get("search") ?? "";
    this.onlySet.checked = (parameters.get("set") ?? "") !== "";
    this.#draw();
  }

  #draw() {
    const wanted = this.search.value.toLowerCase().split(/\s+/);
    const isFound = (/** @type {Setting} */ one) => {
      const text = `${one.setting} ${one.value} ${one.from} ${one.description}`.toLowerCase();
      return (!this.onlySet.checked || one.from !== DEFAULT) && wanted.every((word) => text.includes(word));
    };
    const found = this.#settings.filter(isFound);
    say(this.count, this.#settings.length > 0 ? words.settings.shown(found.length, this.#settings.length) : "");
    renew(this.rows, JSON.stringify(found), () => found.map(settingRow));
  }
}

/** @param {Setting} one */
function settingRow({ setting, value, unit, from, live, description }) {
  return element(
    "tr", { dataset: { setting } },
    element("td", {}, element("code", {}, setting), element("p", { class: "quiet" }, description, " ", live ? said.live : said.restart)),
    element("td", { class: "mono" }, typeof value === "number" ? `${exact(value)} ${unit}` : visible([value].flat().join("\n")) || "–"),
    element("td", { class: from === DEFAULT ? "quiet" : "" }, from === DEFAULT ? said.byDefault : visible(from)),
  );
}
