// The chart of the steps: a bar per step, its parts stacked, the slow ones marked.

import { fitted, h, themed } from "stepscope/dom.js";
import { number, time } from "stepscope/format.js";
import { barsFor, ticks } from "stepscope/lib/bars.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {import("./app.js").App} App */

const WIDEST = 48; // px of a bar with its gap
const LEFT = 64; // px for the scale
const TOP = 16; // px for the marks of slow steps
const BOTTOM = 18; // px for the numbers

/**
 * @param {Data} data
 * @param {App} app
 * @returns {{title: string, element: HTMLElement, close: () => void} | null} null: the trace has no steps
 */
export function stepChart(data, app) {
  const chart = new StepChart(data, app);
  const title = data.value("answer")?.unit === "request" ? "Requests" : "Steps";
  return chart.length ? { title, element: chart.element, close: () => chart.close() } : null;
}

class StepChart {
  /** @param {Data} data @param {App} app */
  constructor(data, app) {
    this.app = app;
    /** @type {{unit: string, how: string, median_ns: number, p99_ns: number} | null | undefined} of the steady ones */
    this.facts = data.value("answer")?.steps;
    this.ready = data.column("steps.ready");
    this.number = data.column("steps.number");
    this.start = data.column("steps.start");
    this.duration = data.column("steps.duration");
    this.slow = data.column("steps.is_slow");
    this.whole = data.column("steps.is_whole");
    this.length = this.number.length;
    /** @type {{id: string, ns: ArrayLike<number>}[]} */
    this.parts = (data.value("steps.parts") ?? []).map((/** @type {{id: string}} */ { id }) => ({ id, ns: data.column(`steps.${id}`) }));
    // Without marks, the first step includes everything before it, which would flatten the rest.
    this.height = Array.from(this.duration, (ns, row) => (this.whole[row] ? ns : 0));
    this.highest = maximum(this.height) || maximum(this.duration) || 1;
    this.chosen = -1;
    this.bars = barsFor(this.duration, 1, WIDEST);
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", {
        class: "steps",
        tabindex: 0,
        role: "slider",
        "aria-label": "Steps; Enter shows one in the timeline",
        "aria-valuemin": 1,
        "aria-valuemax": this.length,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
        onpointermove: (/** @type {PointerEvent} */ event) => this.choose(this.rowAt(event.offsetX)),
        onpointerleave: () => this.choose(-1),
        onclick: (/** @type {PointerEvent} */ event) => this.open(this.rowAt(event.offsetX)),
      })
    );
    this.line = h("p", { class: "quiet", role: "status" });
    this.element = h("div", null, this.canvas, this.line);
    this.choose(-1);
    this.view = fitted(this.canvas, (context, width, height) => this.draw(context, width, height));
  }

  close() {
    this.view.close();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    context.clearRect(0, 0, width, height);
    const room = height - TOP - BOTTOM;
    const scale = room / this.highest;
    this.scale(context, width, height - BOTTOM, scale);
    this.bars = barsFor(this.height, width - LEFT, WIDEST);
    const { rows, pitch } = this.bars;
    const colours = this.parts.map(({ id }) => themed(`--part-${id.replace("_", "-")}`));
    const thick = Math.max(1, pitch - Math.min(4, Math.max(1, pitch / 5)));
    for (let bar = 0; bar < rows.length; bar++) {
      const row = rows[bar];
      const x = LEFT + bar * pitch;
      let y = height - BOTTOM;
      for (const [i, { ns }] of this.parts.entries()) {
        const part = Math.min(ns[row] * scale, y - TOP);
        context.fillStyle = colours[i];
        context.fillRect(x, y - part, thick, part);
        y -= part;
      }
      this.mark(context, row, x + thick / 2, y);
    }
    this.labels(context, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} row @param {number} x @param {number} y */
  mark(context, row, x, y) {
    if (row === this.chosen) {
      context.strokeStyle = themed("--text");
      context.strokeRect(x - this.bars.pitch / 2 + 0.5, y - 1, Math.max(2, this.bars.pitch - 1), context.canvas.clientHeight - BOTTOM - y + 1);
    }
    if (!this.slow[row]) return;
    context.fillStyle = themed("--bad");
    context.beginPath();
    context.moveTo(x - 5, y - 10);
    context.lineTo(x + 5, y - 10);
    context.lineTo(x, y - 3);
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} bottom @param {number} scale */
  scale(context, width, bottom, scale) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const ns of ticks(this.highest, 4)) {
      const y = Math.round(bottom - ns * scale) + 0.5;
      context.strokeStyle = themed("--line");
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(width, y);
      context.stroke();
      context.fillStyle = themed("--quiet");
      context.fillText(ns ? time(ns) : "0", LEFT - 6, y);
    }
  }

  /** The numbers of the steps, as many as fit. @param {CanvasRenderingContext2D} context @param {number} height */
  labels(context, height) {
    const { rows, pitch } = this.bars;
    const every = Math.ceil(56 / pitch);
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.fillStyle = themed("--quiet");
    for (let bar = 0; bar < rows.length; bar += every) {
      context.fillText(String(this.number[rows[bar]]), LEFT + bar * pitch + pitch / 2, height - 4);
    }
  }

  /** @param {number} x px @returns {number} -1: no step is there */
  rowAt(x) {
    return this.bars.rows[Math.floor((x - LEFT) / this.bars.pitch)] ?? -1;
  }

  /** @param {number} row */
  choose(row) {
    this.chosen = row;
    this.line.textContent = row < 0 ? this.summary() : this.describe(row);
    this.canvas.setAttribute("aria-valuenow", String(row + 1));
    this.canvas.setAttribute("aria-valuetext", row < 0 ? this.summary() : this.describe(row));
    this.view?.redraw();
  }

  summary() {
    const slow = Array.from(this.slow).filter(Boolean).length;
    const first = this.whole[0] ? "" : "; the first includes everything before it and is cut off";
    const { unit = "step", how = "", median_ns = 0, p99_ns = 0 } = this.facts ?? {};
    const usual = median_ns ? `: median ${time(median_ns)}, 99th percentile ${time(p99_ns)}` : "";
    return `${number(this.length)} ${unit}${this.length === 1 ? "" : "s"}${how && `, ${how}`}${usual}${slow ? `, ${number(slow)} much slower than the rest` : ""}${first}`;
  }

  /** @param {number} row */
  describe(row) {
    const parts = this.parts.filter(({ ns }) => ns[row] > 0).map(({ id, ns }) => `${id.replace("_", " ")} ${time(ns[row])}`);
    const slow = this.slow[row] ? " (slow)" : "";
    const ready = this.ready[row] ? `; ${time(this.ready[row])} of it waiting for a core` : "";
    return `Step ${this.number[row]}: ${time(this.duration[row])}${slow} – ${parts.join(", ")}${ready}`;
  }

  /** @param {number} row */
  open(row) {
    if (row < 0 || !this.app.has("timeline")) return;
    const from = this.start[row];
    this.app.go("timeline", { from: String(from), to: String(from + this.duration[row]) });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const last = this.length - 1;
    if (event.key === "ArrowRight") this.choose(Math.min(this.chosen + 1, last));
    else if (event.key === "ArrowLeft") this.choose(Math.max(this.chosen - 1, 0));
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(last);
    else if (event.key === "Enter") this.open(this.chosen);
    else return;
    event.preventDefault();
  }
}

/** Math.max of an array; a call would have too many arguments. @param {ArrayLike<number>} values */
function maximum(values) {
  let highest = 0;
  for (let i = 0; i < values.length; i++) highest = Math.max(highest, values[i]);
  return highest;
}
