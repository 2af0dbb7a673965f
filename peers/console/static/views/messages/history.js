/** The place in the journal: a slider from its oldest record to now, a time, an offset. It stands in the address (`at`, `offset`). */

import { element, say } from "../../parts/element.js";
import { moment, TIME, whole } from "../../parts/figures.js";
import { words } from "../../words.js";

/** Steps of the slider. */
const STEPS = 1_000;

/** @import { From, Oldest, Told } from "../../parts/feed.js" */

export class History {
  /** @type {Oldest} */ #oldest = null;
  /** @type {number | null} */ #next = null;
  /** @type {number | null} Where what is shown begins, milliseconds since 1970; the range may be known later. */
  #at = null;

  /** @param {(place: {at?: string, offset?: number}) => void} go @param {AbortSignal} signal */
  constructor(go, signal) {
    const { messages: said } = words;
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
    const jump = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (this.offset.value !== "") go({ offset: Number(this.offset.value) });
      else if (this.time.value !== "") toTime(new Date(this.time.value.replace(" ", "T")));
    };
    this.element = element(
      "div", { id: "history", class: "history", hidden: true },
      element("div", { class: "toolbar" }, this.slider, this.sliderTime),
      element(
        "form", { id: "history-jump", class: "toolbar", autocomplete: "off", signal, on: { submit: jump } },
        this.time, this.offset, element("button", { type: "submit" }, said.jump),
        this.later, element("span", { class: "spring" }), this.told,
      ),
    );
  }

  // Show where one reads from.
  /** @param {From} from */
  begin({ at, offset }) {
    this.#next = null;
    this.later.disabled = true;
    this.offset.value = offset === undefined ? "" : String(offset);
    this.time.value = at === undefined ? "" : local(new Date(at));
    this.#at = at ?? null;
    if (at !== undefined) this.#setSlider(at);
    say(this.told, words.messages.reads);
  }

  // The journal begins there; null for an empty one.
  /** @param {Oldest} oldest */
  setRange(oldest) {
    this.#oldest = oldest;
    this.slider.disabled = oldest === null;
    if (oldest === null) say(this.told, words.messages.emptyJournal);
    if (this.#at !== null) this.#setSlider(this.#at);
    else this.#sayTime();
  }

  // So much was read.
  /** @param {Told["history"]} told */
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

// As the field has it: by the reader's clock, of 24 hours, without a zone.
/** @param {Date} time */
function local(time) {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, -1).replace("T", " ");
}
