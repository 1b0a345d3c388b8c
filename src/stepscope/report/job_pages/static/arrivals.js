// One collective: when each rank arrived, how long it waited for the last one, and the transfer.

import { fitted, h, themed } from "stepscope/dom.js";
import { number, tickText, time } from "stepscope/format.js";
import { rowsOf } from "stepscope/lib/columns.js";

/** @typedef {import("../../static/decode.js").Data} Data */

const [LEFT, RIGHT, TOP, BOTTOM] = [64, 12, 6, 24];
const TALLEST = 360;
const ROW = 18;

export class Arrivals {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.numbers = data.column("job.number");
    this.meetings = rowsOf(data, "meetings");
    /** @type {{rank: number, arrived: number, done: number}[]} by arrival */
    this.rows = [];
    this.last = 0;
    this.end = 1;
    this.height = 1;
    this.title = h("p", { class: "quiet" }, "No collective of several ranks was recorded.");
    this.line = h("p", { class: "quiet", role: "status" });
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", {
        class: "arrivals",
        role: "img",
        "aria-label": "Arrivals of the ranks at one collective",
        onpointermove: (/** @type {PointerEvent} */ event) => this.point(event.offsetY),
        onpointerleave: () => this.point(-1),
      })
    );
    this.view = fitted(this.canvas, (context, width, height) => this.draw(context, width, height));
  }

  close() {
    this.view.close();
  }

  /** @param {number} meeting its row */
  show(meeting) {
    const [first, rank] = [this.data.column("meetings.first"), this.data.column("rows.rank")];
    const [arrived, done] = [this.data.column("rows.arrived"), this.data.column("rows.done")];
    this.rows = [];
    for (let row = first[meeting]; row < first[meeting + 1]; row++) {
      this.rows.push({ rank: rank[row], arrived: arrived[row], done: done[row] });
    }
    this.rows.sort((a, b) => a.arrived - b.arrived);
    this.last = Math.max(0, ...this.rows.map((row) => row.arrived));
    this.end = Math.max(1, ...this.rows.map((row) => row.done));
    const value = (/** @type {string} */ key) => this.meetings.value(key, meeting);
    const step = Number.isNaN(value("step")) ? "" : `, step ${value("step")}`;
    const who = Number.isNaN(value("last_rank")) ? "nobody can be blamed: the clocks are not exact enough" : `rank ${value("last_rank")} was the last, ${time(Number(value("blame_ns")))} after the one before it`;
    this.title.textContent = `${value("collective")} ${number(Number(value("number")))} of group ${value("group")}${step}: ${who}. A bar begins when a rank arrives; it waits until the last one comes, and then the transfer begins.`;
    this.canvas.style.height = `${Math.min(Math.max(this.rows.length, 2) * ROW, TALLEST) + TOP + BOTTOM}px`;
    this.point(-1);
    this.view.redraw();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    context.clearRect(0, 0, width, height);
    this.height = height - TOP - BOTTOM;
    const inner = width - LEFT - RIGHT;
    const each = this.height / Math.max(this.rows.length, 1);
    const x = (/** @type {number} */ ns) => LEFT + (ns / this.end) * inner;
    const [waits, moves] = [themed("--mark"), themed("--accent")];
    const thick = Math.max(each - (each > 5 ? 2 : 0), 1);
    for (const [i, row] of this.rows.entries()) {
      const y = TOP + i * each;
      context.fillStyle = waits;
      context.globalAlpha = 0.55;
      context.fillRect(x(row.arrived), y, Math.max(x(this.last) - x(row.arrived), 1), thick);
      context.globalAlpha = 1;
      context.fillStyle = moves;
      context.fillRect(x(this.last), y, Math.max(x(row.done) - x(this.last), 1), thick);
    }
    this.axes(context, each, x, inner);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} each @param {(ns: number) => number} x @param {number} inner */
  axes(context, each, x, inner) {
    context.fillStyle = themed("--quiet");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(13 / each));
    for (let i = 0; i < this.rows.length; i += every) {
      context.fillText(`rank ${this.numbers[this.rows[i].rank]}`, LEFT - 6, TOP + (i + 0.5) * each);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const ticks = Math.max(2, Math.floor(inner / 120));
    for (let i = 0; i <= ticks; i++) {
      const ns = (this.end * i) / ticks;
      context.fillText(tickText(ns, this.end / ticks, this.end), Math.min(Math.max(x(ns), LEFT + 20), LEFT + inner - 10), TOP + this.height + 6);
    }
  }

  /** @param {number} y */
  point(y) {
    const row = this.rows[Math.floor(((y - TOP) / this.height) * this.rows.length)];
    this.line.textContent =
      row && y >= TOP
        ? `Rank ${this.numbers[row.rank]} arrived ${time(row.arrived)} after the first, waited ${time(Math.max(this.last - row.arrived, 0))} for the last, and was done after ${time(row.done)}`
        : `${number(this.rows.length)} ranks, the first at the top; all had arrived after ${time(this.last)}.`;
  }
}
