/**
 * A chart of figures over time: uPlot, in the colours of the page. Charts of one `group` show the same moment under the
 * pointer. The last figures stand beside it as text, for screen readers.
 */

import { language } from "../words.js";
import { element, say } from "./element.js";
import { clock } from "./figures.js";

/** @import { Options } from "./uplot.d.ts" */

/** Height of the plot, CSS pixels. */
const HEIGHT_PX = 132;

/** Room for the numbers of the axis, CSS pixels. */
const AXIS_PX = 64;

const FONT = "11px system-ui, sans-serif";

/** Steps of the axis of times: no part of a second, which would be written like the whole one. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

const POWERS = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Steps between the lines of a grid: of bytes, of what there are halves of, and of what there are none of. */
export const STEPS = {
  bytes: POWERS,
  parts: Array.from({ length: 24 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** (power - 6))).flat(),
  whole: Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(),
};

/**
 * @typedef {{name: string, colour: string, filled?: boolean}} Line
 *   `name`: What it is called. `colour`: A variable of the style.
 */

export class Chart {
  #plot;
  #lines;
  #format;
  #steps;
  #values;
  /** @type {number[]} */ #times = [];
  /** @type {(number | null)[][]} */ #columns = [];

  /**
   * @param {string} title @param {Line[]} lines @param {(value: number | null) => string} format
   * @param {number[]} steps Between the lines of the grid: one of these.
   * @param {string} group @param {AbortSignal} signal
   * @param {boolean} [fits] Whether the axis begins where the numbers do, and not at 0.
   */
  constructor(title, lines, format, steps, group, signal, fits = false) {
    this.#lines = lines;
    this.#format = format;
    this.#steps = steps;
    this.#values = lines.map(() => element("output"));
    this.at = element("span", { class: "quiet chart-time" });
    const place = element("div", { class: "plot", "aria-hidden": "true" });
    this.element = element(
      "figure", { class: "card chart", role: "group", "aria-label": title },
      element(
        "figcaption", {},
        element("span", { class: "chart-title" }, title),
        ...lines.map((line, at) => this.#legend(line, lines.length > 1, this.#values[at])),
        this.at,
      ),
      place,
    );
    this.#plot = new globalThis.uPlot(this.#options(group, fits), [[], ...lines.map(() => [])], place);
    const sizes = new ResizeObserver(() => {
      if (place.clientWidth > 0) this.#plot.setSize({ width: place.clientWidth, height: HEIGHT_PX });
    });
    sizes.observe(place);
    onColours(() => this.#plot.redraw(false), signal);
    signal.addEventListener("abort", () => {
      sizes.disconnect();
      this.#plot.destroy();
    });
  }

  /**
   * @param {number[]} times Seconds since 1970, ascending.
   * @param {(number | null)[][]} columns The values of each line.
   */
  set(times, columns) {
    this.#times = times;
    this.#columns = columns;
    this.#plot.setData([times, ...columns]);
    this.#say();
  }

  /** Say the values under the pointer, with their time; without a pointer, the last ones. */
  #say() {
    const { left = -1, idx = null } = this.#plot?.cursor ?? {};
    const at = left >= 0 && idx !== null && idx < this.#times.length ? idx : null;
    this.#columns.forEach((column, line) => {
      const value = at === null ? column.findLast((it) => it !== null) : column[at];
      say(this.#values[line], this.#format(value ?? null));
    });
    say(this.at, at === null ? "" : clock(new Date(this.#times[at] * 1000)));
  }

  /** @param {Line} line @param {boolean} isNamed @param {HTMLElement} value */
  #legend(line, isNamed, value) {
    const mark = element("span", { class: "mark", "aria-hidden": "true" });
    mark.style.background = `var(${line.colour})`;
    return element("span", { class: "legend" }, mark, isNamed ? `${line.name} ` : "", value);
  }

  /** @param {string} group @param {boolean} fits @returns {Options} */
  #options(group, fits) {
    const quiet = () => colour("--quiet");
    const grid = { stroke: () => colour("--line"), width: 1 };
    const minutes = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const format = this.#format;
    return {
      width: 300,
      height: HEIGHT_PX,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: group }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
      hooks: { setCursor: [() => this.#say()] },
      scales: { y: { range: (_plot, low, high) => (fits ? around(low, high) : [0, high !== null && high > 0 ? high * 1.05 : 1]) } },
      axes: [
        {
          stroke: quiet, grid: { show: false }, ticks: { show: false }, font: FONT, size: 22, space: 90, incrs: SECONDS,
          values: (_plot, splits, _axis, _space, step) => splits.map((at) => (step < 60 ? clock(new Date(at * 1000)) : minutes.format(at * 1000))),
        },
        {
          stroke: quiet, grid, ticks: { show: false }, font: FONT, size: AXIS_PX, space: 32, incrs: this.#steps,
          values: (_plot, splits) => splits.map((value) => format(value)),
        },
      ],
      series: [
        {},
        ...this.#lines.map((line) => ({
          label: line.name,
          width: 1.5,
          stroke: () => colour(line.colour),
          fill: line.filled ? () => faded(colour(line.colour)) : undefined,
          points: { show: false },
          spanGaps: false,
        })),
      ],
    };
  }
}

// From below the least to above the most; where both are the same, or there is nothing, some room.
/** @param {number | null} low @param {number | null} high @returns {[number, number]} */
function around(low, high) {
  if (low === null || high === null) return [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
}

/** `rgb(1, 2, 3)` or `color(srgb ...)` with little of it. @param {string} solid */
function faded(solid) {
  return solid.startsWith("rgb(") ? solid.replace("rgb(", "rgba(").replace(")", ", 0.14)") : solid.replace(")", " / 0.14)");
}

// The colours of the page's style, for what is drawn on a canvas; and when they change.

const probe = document.createElement("span");
probe.hidden = true;

/** Return what `var(NAME)` is now, as `rgb(...)`. @param {string} name */
export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** @type {Set<() => void>} */
const listeners = new Set();

// Tell `act` when colours have changed, until `signal` ends that.
/** @param {() => void} act @param {AbortSignal} [signal] */
function onColours(act, signal) {
  listeners.add(act);
  signal?.addEventListener("abort", () => listeners.delete(act), { once: true });
}

/** The page has taken other colours. */
export function coloursChanged() {
  for (const act of listeners) act();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", coloursChanged);
