// The heat map: a row for each rank, a column for each step. If ranks share a pixel, it shows the worst.

import { fitted, h, themed } from "stepscope/dom.js";
import { time } from "stepscope/format.js";

/** @typedef {import("../../static/decode.js").Data} Data */

const [LEFT, TOP, BOTTOM] = [64, 4, 22];
const TALLEST = 480; // px of all ranks
const ROW = 16; // px of a rank, where there is room

export class Heat {
  /**
   * @param {Data} data
   * @param {string} metric delay, own or step
   * @param {(rank: number, step: number) => void} tell what is under the pointer, -1 for nothing
   * @param {(rank: number, step: number) => void} choose a cell was clicked
   */
  constructor(data, metric, tell, choose) {
    this.data = data;
    this.metric = metric;
    this.tell = tell;
    this.choose = choose;
    this.numbers = data.column("job.number");
    this.steps = data.column("job.steps");
    this.at = { rank: -1, step: -1 };
    this.size = { width: 1, height: 1 };
    this.legend = h("p", { class: "quiet heat-legend" });
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", {
        class: "heat",
        tabindex: 0,
        role: "img",
        "aria-label": "Map of ranks and steps; arrows go from cell to cell, Enter shows one",
        style: `height: ${Math.min(this.numbers.length * ROW, TALLEST) + TOP + BOTTOM}px`,
        onpointermove: (/** @type {PointerEvent} */ event) => this.point(event.offsetX, event.offsetY),
        onpointerleave: () => this.move(-1, -1),
        onclick: () => this.at.rank >= 0 && this.choose(this.at.rank, this.at.step),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      })
    );
    this.view = fitted(this.canvas, (context, width, height) => this.draw(context, width, height));
    this.use(metric);
  }

  close() {
    this.view.close();
  }

  /** Show another figure. @param {string} metric */
  use(metric) {
    this.metric = ["delay", "own", "step"].includes(metric) ? metric : "delay";
    this.values = this.data.column(`heat.${this.metric}`);
    // Steady steps define the range: slow first steps would make all others look alike.
    const steady = this.data.column("job.steady");
    const known = Array.from(this.values).filter((value, i) => value >= 0 && steady[i % steady.length]).sort((a, b) => a - b);
    const low = this.metric === "delay" ? 0 : (known[Math.floor(known.length * 0.02)] ?? 0);
    // The maximum, since one late rank among a thousand must stand out.
    const high = known[known.length - 1] ?? 1;
    this.range = { low, high: Math.max(high, low + 1) };
    this.legend.textContent = `from ${time(this.range.low)} (light) to ${time(this.range.high)} and more (dark)`;
    this.view?.redraw();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    this.size = { width: width - LEFT, height: height - TOP - BOTTOM };
    context.clearRect(0, 0, width, height);
    const [ranks, steps] = [this.numbers.length, this.steps.length];
    if (!ranks || !steps) return;
    const dark = themed("--bad");
    const quiet = themed("--panel");
    const rowHeight = this.size.height / ranks;
    const columnWidth = this.size.width / steps;
    context.fillStyle = quiet;
    context.fillRect(LEFT, TOP, this.size.width, this.size.height);
    context.fillStyle = dark;
    const rows = Math.min(ranks, Math.max(Math.floor(this.size.height), 1));
    const columns = Math.min(steps, Math.max(Math.floor(this.size.width), 1));
    const worst = this.worst(rows, columns);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const share = worst[y * columns + x];
        if (share <= 0) continue;
        context.globalAlpha = share;
        context.fillRect(LEFT + (x * this.size.width) / columns, TOP + (y * this.size.height) / rows, this.size.width / columns - (columnWidth > 6 ? 1 : 0), this.size.height / rows - (rowHeight > 6 ? 1 : 0));
      }
    }
    context.globalAlpha = 1;
    this.axes(context, rowHeight, columnWidth);
    if (this.at.rank >= 0) {
      context.strokeStyle = themed("--accent");
      context.lineWidth = 2;
      context.strokeRect(LEFT + this.at.step * columnWidth, TOP + this.at.rank * rowHeight, Math.max(columnWidth, 3), Math.max(rowHeight, 3));
    }
  }

  /** The share of the range that each drawn cell shows: the largest of those in it. @param {number} rows @param {number} columns */
  worst(rows, columns) {
    const [ranks, steps] = [this.numbers.length, this.steps.length];
    const { low, high } = this.range ?? { low: 0, high: 1 };
    const found = new Float32Array(rows * columns);
    const values = this.values ?? new Float32Array(0);
    for (let rank = 0, i = 0; rank < ranks; rank++) {
      const y = Math.min(rows - 1, Math.floor((rank * rows) / ranks));
      for (let step = 0; step < steps; step++, i++) {
        const x = Math.min(columns - 1, Math.floor((step * columns) / steps));
        const share = Math.min((values[i] - low) / (high - low), 1);
        if (share > found[y * columns + x]) found[y * columns + x] = share;
      }
    }
    return found;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} rowHeight @param {number} columnWidth */
  axes(context, rowHeight, columnWidth) {
    context.fillStyle = themed("--quiet");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.max(1, Math.ceil(14 / rowHeight));
    for (let rank = 0; rank < this.numbers.length; rank += every) {
      context.fillText(`rank ${this.numbers[rank]}`, LEFT - 6, TOP + (rank + 0.5) * rowHeight);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const apart = Math.max(1, Math.ceil(44 / columnWidth));
    for (let step = 0; step < this.steps.length; step += apart) {
      context.fillText(String(this.steps[step]), LEFT + (step + 0.5) * columnWidth, TOP + this.size.height + 5);
    }
  }

  /** @param {number} x @param {number} y */
  point(x, y) {
    const rank = Math.floor(((y - TOP) / this.size.height) * this.numbers.length);
    const step = Math.floor(((x - LEFT) / this.size.width) * this.steps.length);
    const inside = rank >= 0 && rank < this.numbers.length && step >= 0 && step < this.steps.length;
    this.move(inside ? rank : -1, inside ? step : -1);
  }

  /** @param {number} rank @param {number} step */
  move(rank, step) {
    if (rank === this.at.rank && step === this.at.step) return;
    this.at = { rank, step };
    this.tell(rank, step);
    this.view.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    const { rank, step } = this.at;
    if (move) {
      const next = rank < 0 ? [0, 0] : [rank + move[0], step + move[1]];
      this.move(Math.min(Math.max(next[0], 0), this.numbers.length - 1), Math.min(Math.max(next[1], 0), this.steps.length - 1));
    } else if (event.key === "Enter" && rank >= 0) this.choose(rank, step);
    else return;
    event.preventDefault();
  }
}
