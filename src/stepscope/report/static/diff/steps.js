// The steps of both sides: a dot each, the median of each run a line, one scale for both.

import { fitted, h, themed } from "stepscope/dom.js";
import { number, time } from "stepscope/format.js";
import { ticks } from "stepscope/lib/bars.js";

/** @typedef {import("../decode.js").Data} Data */

const LEFT = 70;
const TOP = 20;
const BOTTOM = 8;
const GAP = 24; // between the sides

export class Steps {
  /** @param {Data} data */
  constructor(data) {
    this.sides = ["before", "after"].map((word) => ({ word, ns: data.column(`diff.${word}.ns`), run: data.column(`diff.${word}.run`) }));
    // A few extremely long steps would flatten all others.
    const all = this.sides.flatMap(({ ns }) => Array.from(ns)).sort((a, b) => a - b);
    this.highest = 1.15 * (all[Math.floor(all.length * 0.95)] ?? 1);
    this.beyond = all.filter((ns) => ns > this.highest).length;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "diff-steps", role: "img", "aria-label": "Step times before and after" }));
    const beyond = this.beyond ? `${number(this.beyond)} longer ones are at the upper edge.` : "";
    this.element = h("div", null, this.canvas, h("p", { class: "quiet" }, `A dot is a step, a line the median of a run. ${beyond}`));
  }

  /** Start drawing. @returns {() => void} stops it */
  open() {
    return fitted(this.canvas, (context, width, height) => this.paint(context, width, height)).close;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  paint(context, width, height) {
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const y = (/** @type {number} */ ns) => height - BOTTOM - (Math.min(ns, this.highest) / this.highest) * (height - TOP - BOTTOM);
    for (const ns of ticks(this.highest, 5)) {
      context.strokeStyle = themed("--line");
      context.beginPath();
      context.moveTo(LEFT, Math.round(y(ns)) + 0.5);
      context.lineTo(width, Math.round(y(ns)) + 0.5);
      context.stroke();
      context.fillStyle = themed("--quiet");
      context.fillText(ns ? time(ns) : "0", LEFT - 6, y(ns));
    }
    const room = (width - LEFT - GAP) / 2;
    for (const [i, side] of this.sides.entries()) this.paintSide(context, side, LEFT + i * (room + GAP), room, y);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {{word: string, ns: ArrayLike<number>, run: ArrayLike<number>}} side
   * @param {number} left
   * @param {number} room
   * @param {(ns: number) => number} y
   */
  paintSide(context, { word, ns, run }, left, room, y) {
    const colour = themed(word === "before" ? "--accent" : "--mark");
    context.textAlign = "left";
    context.fillStyle = themed("--text");
    context.fillText(`${word}: median ${time(median(Array.from(ns)))}`, left, TOP / 2);
    const pitch = room / Math.max(ns.length, 1);
    context.fillStyle = colour;
    context.globalAlpha = 0.55;
    for (let i = 0; i < ns.length; i++) context.fillRect(left + i * pitch, y(ns[i]) - 1, Math.max(pitch * 0.8, 1.5), 2);
    context.globalAlpha = 1;
    for (let from = 0; from < ns.length; ) {
      let to = from;
      while (to < ns.length && run[to] === run[from]) to++;
      const middle = y(median(Array.from(ns).slice(from, to)));
      context.fillStyle = themed("--text");
      context.fillRect(left + from * pitch, middle - 1, Math.max((to - from) * pitch - 3, 2), 2);
      from = to;
    }
  }
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}
