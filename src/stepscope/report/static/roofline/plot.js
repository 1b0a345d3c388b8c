// The roofline: operations per byte on the x axis, operations per second on the y axis, and the roofs.

import { fitted, h, themed } from "stepscope/dom.js";
import { number, scaled } from "stepscope/format.js";
import { decades, radius, rangesOf, slope } from "stepscope/roofline/scale.js";

/** @typedef {import("./scale.js").Point} Point */
/**
 * @typedef {object} Shown
 * @property {Point[]} points those with the most time first
 * @property {Record<string, number>} roofs FLOP/s by type
 * @property {number} memory B/s, 0: not known
 * @property {(row: number) => void} choose called with the row of a point, -1 for none
 * @property {(row: number) => void} pick a point was clicked, or Enter pressed on it
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [84, 16, 14, 40];
const NEAR = 6; // px around a point that count as the point

/** The colour of a type. @param {string} dtype */
export function colourOf(dtype) {
  return themed(`--roof-${dtype}`) || themed("--roof-other");
}

export class Plot {
  /** @param {Shown} shown */
  constructor(shown) {
    this.shown = shown;
    this.chosen = -1; // an index of the points
    const { points, roofs, memory } = shown;
    /** @type {[string, number][]} a roof that two types share is drawn once */
    this.roofs = Object.entries(roofs).filter(([, rate], i, all) => rate > 0 && all.findIndex(([, other]) => other === rate) === i);
    this.rates = this.roofs.map(([, rate]) => rate);
    this.ranges = rangesOf(points, this.rates, memory);
    this.longest = Math.max(0, ...points.map(({ time }) => time));
    this.size = { width: 0, height: 0 };
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", {
        class: "roofline-plot",
        tabindex: 0,
        role: "slider",
        "aria-label": "Roofline: operators by operations a byte and operations a second; arrows go from one to the next",
        "aria-valuemin": 1,
        "aria-valuemax": points.length,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
        onpointermove: (/** @type {PointerEvent} */ event) => this.choose(this.at(event.offsetX, event.offsetY)),
        onpointerleave: () => this.choose(-1),
        onclick: (/** @type {PointerEvent} */ event) => this.pick(this.at(event.offsetX, event.offsetY)),
      })
    );
    this.view = fitted(this.canvas, (context, width, height) => this.draw(context, width, height));
  }

  close() {
    this.view.close();
  }

  /** Mark the point of a row of the table. @param {number} row */
  mark(row) {
    this.chosen = this.shown.points.findIndex((point) => point.row === row);
    this.view.redraw();
  }

  /** @param {number} intensity */
  x(intensity) {
    const { from, to } = this.ranges.x;
    return LEFT + ((Math.log10(intensity) - from) / (to - from)) * (this.size.width - LEFT - RIGHT);
  }

  /** @param {number} rate */
  y(rate) {
    const { from, to } = this.ranges.y;
    return this.size.height - BOTTOM - ((Math.log10(rate) - from) / (to - from)) * (this.size.height - TOP - BOTTOM);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    this.size = { width, height };
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    this.axes(context);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT - RIGHT, height - BOTTOM);
    context.clip();
    this.points(context);
    this.drawRoofs(context);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context */
  axes(context) {
    const { width, height } = this.size;
    context.strokeStyle = themed("--line");
    context.fillStyle = themed("--quiet");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const power of decades(this.ranges.y)) {
      const y = Math.round(this.y(10 ** power)) + 0.5;
      line(context, [LEFT, y], [width - RIGHT, y]);
      context.fillText(scaled(10 ** power, "FLOP/s"), LEFT - 6, y);
    }
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    for (const power of decades(this.ranges.x)) {
      const x = Math.round(this.x(10 ** power)) + 0.5;
      line(context, [x, TOP], [x, height - BOTTOM]);
      context.fillText(power < 0 ? (10 ** power).toFixed(-power) : number(10 ** power), x, height - BOTTOM + 15);
    }
    context.fillText("operations for each byte (FLOP/B)", (LEFT + width - RIGHT) / 2, height - 6);
  }

  /** @param {CanvasRenderingContext2D} context */
  drawRoofs(context) {
    const { memory } = this.shown;
    const { width } = this.size;
    context.lineWidth = 2;
    context.textBaseline = "bottom";
    if (memory) {
      const { from, to } = slope(this.ranges.x, this.rates, memory);
      const [a, b] = [[this.x(from[0]), this.y(from[1])], [this.x(to[0]), this.y(to[1])]];
      context.strokeStyle = themed("--text");
      line(context, a, b);
      this.alongSlope(context, a, b, scaled(memory, "B/s"));
    }
    context.textAlign = "right";
    for (const [dtype, rate] of this.roofs) {
      const begin = memory ? this.x(rate / memory) : LEFT;
      const y = this.y(rate);
      context.strokeStyle = colourOf(dtype);
      context.fillStyle = colourOf(dtype);
      line(context, [Math.max(begin, LEFT), y], [width - RIGHT, y]);
      context.fillText(`${scaled(rate, "FLOP/s")} ${dtype}`, width - RIGHT - 4, y - 2);
    }
    context.lineWidth = 1;
  }

  /** Write along a line, below it. @param {CanvasRenderingContext2D} context @param {number[]} a @param {number[]} b @param {string} text */
  alongSlope(context, [x0, y0], [x1, y1], text) {
    const bottom = this.size.height - BOTTOM;
    const start = y0 > bottom ? x0 + ((x1 - x0) * (bottom - y0)) / (y1 - y0) : x0; // where the line enters the plot
    context.save();
    context.translate((start + x1) / 2, y1 + ((y0 - y1) * (x1 - (start + x1) / 2)) / (x1 - x0));
    context.rotate(Math.atan2(y1 - y0, x1 - x0));
    context.fillStyle = themed("--text");
    context.textAlign = "center";
    context.fillText(text, 0, -4);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context */
  points(context) {
    for (const [i, point] of this.shown.points.entries()) {
      const size = radius(point.time, this.longest);
      context.beginPath();
      context.arc(this.x(point.intensity), this.y(point.rate), size, 0, 2 * Math.PI);
      context.fillStyle = colourOf(point.dtype);
      context.globalAlpha = i === this.chosen ? 0.9 : 0.45;
      context.fill();
      context.globalAlpha = 1;
      context.strokeStyle = i === this.chosen ? themed("--text") : colourOf(point.dtype);
      context.lineWidth = i === this.chosen ? 2 : 1;
      context.stroke();
      context.lineWidth = 1;
    }
  }

  /** The smallest point at a place, -1 without. @param {number} x @param {number} y */
  at(x, y) {
    let nearest = -1;
    for (const [i, point] of this.shown.points.entries()) {
      const away = Math.hypot(this.x(point.intensity) - x, this.y(point.rate) - y);
      if (away <= radius(point.time, this.longest) + NEAR) nearest = i; // later ones are smaller
    }
    return nearest;
  }

  /** @param {number} i */
  choose(i) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.canvas.setAttribute("aria-valuenow", String(i + 1));
    this.shown.choose(this.shown.points[i]?.row ?? -1);
    this.view.redraw();
  }

  /** @param {number} i */
  pick(i) {
    if (i >= 0) this.shown.pick(this.shown.points[i].row);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const last = this.shown.points.length - 1;
    if (event.key === "ArrowRight") this.choose(Math.min(this.chosen + 1, last));
    else if (event.key === "ArrowLeft") this.choose(Math.max(this.chosen - 1, 0));
    else if (event.key === "Enter") this.pick(this.chosen);
    else return;
    event.preventDefault();
  }
}

/** @param {CanvasRenderingContext2D} context @param {number[]} from @param {number[]} to */
function line(context, from, to) {
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}
