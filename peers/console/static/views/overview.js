/**
 * Overview: what all together publish, and how many are connected.
 */

import { element, say } from "../parts/element.js";
import { whole } from "../parts/figures.js";
import { HubFigures, STATISTICS_TOPIC } from "../parts/hub_figures.js";
import { Sparkline } from "../parts/sparkline.js";
import { every } from "../parts/timing.js";
import { words } from "../words.js";

/** Fast enough to look live, slow enough to be read, milliseconds. */
const FIGURES_MS = 500;

/** @type {import("../shell/views.js").View} */
export const overview = {
  name: "overview",
  title: words.overview.title,
  isFor: (session) => session.mayHear(STATISTICS_TOPIC),
  open(shell, signal) {
    const said = words.overview;
    const { client } = shell.session;
    const figures = new HubFigures();
    const rate = element("output", { id: "rate" });
    const clients = element("output", { id: "clients" });
    const canvas = element("canvas", { id: "sparkline", role: "img", "aria-label": said.curve });
    const sparkline = new Sparkline(canvas, signal);
    const subscription = client.subscribe(STATISTICS_TOPIC, ({ topic, value }) => {
      if (topic === STATISTICS_TOPIC) figures.feed(value);
    });
    const off = client.on("reconnecting", () => figures.forget());
    signal.addEventListener("abort", () => {
      off();
      subscription.unsubscribe();
    });
    every(FIGURES_MS, () => {
      say(rate, whole(figures.publishedPerS));
      say(clients, whole(figures.clients));
      sparkline.add(figures.publishedPerS ?? 0);
    }, signal);
    return {
      element: element(
        "section", { class: "figures overview" },
        element(
          "div", { class: "figure wide" },
          element("div", { title: said.publishedHint }, element("span", { class: "label" }, said.published), rate),
          canvas,
        ),
        element("div", { class: "figure", title: said.clientsHint }, element("span", { class: "label" }, said.clients), clients),
      ),
    };
  },
};
