/**
 * A small curve of the last samples on a canvas.
 *
 * Owner of its samples; bounded by `SAMPLES`. Colours come from the page's style, so that both schemes fit. Cost: one
 * path of `SAMPLES` points a drawing.
 */

/** One minute at two samples a second. */
const SAMPLES = 120;

export class Sparkline {
  #canvas;
  #samples = [];

  constructor(canvas) {
    this.#canvas = canvas;
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
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
    const style = getComputedStyle(canvas);
    context.scale(scale, scale);
    this.#grid(context, width, height, style);
    if (this.#samples.length > 1) this.#curve(context, width, height, style.getPropertyValue("--accent"));
  }

  #grid(context, width, height, style) {
    context.strokeStyle = style.getPropertyValue("--line");
    context.fillStyle = style.getPropertyValue("--quiet");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.beginPath();
    context.moveTo(0, height - 0.5);
    context.lineTo(width, height - 0.5);
    context.stroke();
    context.fillText(`highest ${Math.round(Math.max(0, ...this.#samples)).toLocaleString()}`, width, 10);
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
