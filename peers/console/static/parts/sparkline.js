/**
 * A small curve of the last samples on a canvas.
 *
 * Owner of its samples; bounded by `SAMPLES`. Colours come from the page's style, so that both schemes fit. Cost: one
 * path of `SAMPLES` points a drawing.
 */

import { words } from "../words.js";
import { colour, onColours } from "./colours.js";
import { whole } from "./figures.js";

/** One minute at two samples a second. */
const SAMPLES = 120;

export class Sparkline {
  #canvas;
  #samples = [];

  constructor(canvas, signal) {
    this.#canvas = canvas;
    new ResizeObserver(() => this.draw()).observe(canvas);
    onColours(() => this.draw(), signal);
  }

  add(sample) {
    this.#samples.push(sample);
    if (this.#samples.length > SAMPLES) this.#samples.shift();
    this.draw();
  }

  draw() {
    const canvas = this.#canvas;
    const scale = globalThis.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    this.#grid(context, width, height);
    if (this.#samples.length > 1) this.#curve(context, width, height, colour("--accent"));
  }

  #grid(context, width, height) {
    context.strokeStyle = colour("--line");
    context.fillStyle = colour("--quiet");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.beginPath();
    context.moveTo(0, height - 0.5);
    context.lineTo(width, height - 0.5);
    context.stroke();
    context.fillText(words.overview.highest(whole(Math.max(0, ...this.#samples))), width, 10);
  }

  #curve(context, width, height, colour) {
    const highest = Math.max(1, ...this.#samples);
    const top = 14; // room for the label
    const x = (index) => width - ((this.#samples.length - 1 - index) * width) / (SAMPLES - 1);
    const y = (sample) => height - 1 - (sample / highest) * (height - top - 1);
    context.beginPath();
    this.#samples.forEach((sample, index) => context.lineTo(x(index), y(sample)));
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(x(0), height);
    context.globalAlpha = 0.14;
    context.fill();
    context.globalAlpha = 1;
  }
}
