// Two ranks on one timeline: what each does, where it arrives at collectives and waits for others.

import { fitted, h, themed } from "stepscope/dom.js";
import { tickText, time } from "stepscope/format.js";
import { rowsOf } from "stepscope/lib/columns.js";

/** @typedef {import("../../static/decode.js").Data} Data */
/** @typedef {{start: number, end: number, text: string, colour: string, lane: number, row: number}} Box */

const HUES = [212, 150, 28, 280, 340, 95, 190, 255];
const [LEFT, TOP, BOTTOM] = [76, 6, 22];
const [LANE, LANES, APART] = [16, 7, 18]; // of a rank: its collectives, then what it runs

export class Pair {
  /** @param {Data} data @param {number} a index of a rank @param {number} b of the other */
  constructor(data, a, b) {
    this.data = data;
    this.a = a;
    this.b = b;
    this.numbers = data.column("job.number");
    this.steps = data.column("job.steps");
    this.meetings = rowsOf(data, "meetings");
    this.lanes = rowsOf(data, "lanes");
    this.from = 0;
    this.to = 1;
    this.inner = 1;
    /** @type {Box[]} */
    this.boxes = [];
    this.line = h("p", { class: "quiet", role: "status" });
    this.field = /** @type {HTMLInputElement} */ (h("input", { type: "number", class: "step-field", onchange: () => this.showNumber() }));
    this.stepChoice = h("label", null, "in step ", this.field);
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", {
        class: "pair",
        tabindex: 0,
        role: "img",
        "aria-label": "Timeline of two ranks; + and - zoom, arrows move",
        onpointermove: (/** @type {PointerEvent} */ event) => this.point(event),
        onpointerdown: (/** @type {PointerEvent} */ event) => this.grab(event),
        onwheel: (/** @type {WheelEvent} */ event) => this.wheel(event),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      })
    );
    this.view = fitted(this.canvas, (context, width) => this.draw(context, width));
    this.redraw = () => this.use(this.a, this.b);
    window.addEventListener("themechange", this.redraw);
  }

  close() {
    window.removeEventListener("themechange", this.redraw);
    this.view.close();
  }

  /** @param {number} a @param {number} b indices of ranks */
  use(a, b) {
    [this.a, this.b] = [a, b];
    this.boxes = [...this.boxesOf(a, 0), ...this.boxesOf(b, LANES)];
    const told = this.boxes.some(({ lane }) => lane % LANES > 0);
    this.line.textContent = told
      ? "Above: collectives, waiting (light) and transfer (dark); below: what the rank runs. Wheel or + and − zoom, dragging moves."
      : "Collectives: waiting (light) and transfer (dark). What these ranks run is in their own reports. Wheel or + and − zoom, dragging moves.";
    this.view.redraw();
  }

  showNumber() {
    const step = this.steps.indexOf(/** @type {never} */ (Number(this.field.value)));
    if (step >= 0) this.showStep(step);
  }

  /** @param {number} step index */
  showStep(step) {
    const [starts, took] = [this.data.column("heat.start"), this.data.column("heat.step")];
    let [from, to] = [Infinity, 0];
    for (const rank of [this.a, this.b]) {
      const at = rank * this.steps.length + step;
      if (starts[at] >= 0 && took[at] > 0) [from, to] = [Math.min(from, starts[at]), Math.max(to, starts[at] + took[at])];
    }
    if (to > from) {
      const room = (to - from) * 0.02;
      [this.from, this.to] = [from - room, to + room];
    }
    this.field.value = String(this.steps[step] ?? "");
    this.use(this.a, this.b);
  }

  /** @param {number} rank @param {number} lane the first one @returns {Box[]} */
  boxesOf(rank, lane) {
    const found = [];
    const [first, of] = [this.data.column("meetings.first"), this.data.column("rows.rank")];
    const [arrived, done] = [this.data.column("rows.arrived"), this.data.column("rows.done")];
    const [start, spread] = [this.data.column("meetings.start"), this.data.column("meetings.spread_ns")];
    const [waits, moves] = [themed("--mark"), themed("--accent")];
    for (let meeting = 0; meeting < start.length; meeting++) {
      for (let row = first[meeting]; row < first[meeting + 1]; row++) {
        if (of[row] !== rank) continue;
        const last = start[meeting] + spread[meeting];
        const [came, went] = [start[meeting] + arrived[row], start[meeting] + done[row]];
        const name = `${this.meetings.value("collective", meeting)} ${this.meetings.value("number", meeting)}`;
        const until = Math.min(last, went);
        if (until > came) found.push({ start: came, end: until, text: `${name}: waits for other ranks`, colour: `${waits}`, lane, row: -1 });
        found.push({ start: Math.max(came, until), end: went, text: `${name}: transfer`, colour: moves, lane, row: -1 });
      }
    }
    const columns = ["rank", "depth", "start", "duration", "device"].map((key) => this.data.column(`lanes.${key}`));
    for (let row = 0; row < this.lanes.length; row++) {
      if (columns[0][row] !== rank) continue;
      const text = String(this.lanes.value("name", row));
      const depth = columns[4][row] ? LANES - 1 : Math.min(columns[1][row] + 1, LANES - 2);
      found.push({ start: columns[2][row], end: columns[2][row] + columns[3][row], text, colour: colourOf(text), lane: lane + depth, row });
    }
    return found;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  draw(context, width) {
    const lanes = 2 * LANES;
    const tall = TOP + lanes * LANE + APART + BOTTOM;
    if (this.canvas.style.height !== `${tall}px`) this.canvas.style.height = `${tall}px`;
    context.clearRect(0, 0, width, tall);
    this.inner = width - LEFT - 8;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const box of this.boxes) this.box(context, box);
    context.clearRect(0, 0, LEFT - 4, tall);
    context.fillStyle = themed("--text");
    context.textAlign = "left";
    context.fillText(`rank ${this.numbers[this.a]}`, 6, this.y(0) + LANE / 2);
    context.fillText(`rank ${this.numbers[this.b]}`, 6, this.y(LANES) + LANE / 2);
    this.ticks(context, tall);
  }

  /** @param {CanvasRenderingContext2D} context @param {Box} box */
  box(context, { start, end, text, colour, lane }) {
    if (end < this.from || start > this.to) return;
    const [x, right] = [Math.max(this.x(start), LEFT), Math.min(this.x(end), LEFT + this.inner)];
    const wide = Math.max(right - x, 1);
    context.globalAlpha = text.endsWith("waits for other ranks") ? 0.5 : 1;
    context.fillStyle = colour;
    context.fillRect(x, this.y(lane), wide > 3 ? wide - 0.5 : wide, LANE - 2);
    context.globalAlpha = 1;
    if (wide < 36) return;
    context.save();
    context.beginPath();
    context.rect(x, this.y(lane), wide - 2, LANE);
    context.clip();
    context.fillStyle = "#ffffff";
    context.textAlign = "left";
    context.fillText(text, x + 3, this.y(lane) + LANE / 2 - 1);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} tall */
  ticks(context, tall) {
    context.fillStyle = themed("--quiet");
    context.textAlign = "center";
    const count = Math.max(2, Math.floor(this.inner / 130));
    const span = this.to - this.from;
    for (let i = 0; i <= count; i++) {
      const ns = (span * i) / count;
      context.fillText(tickText(ns, span / count, span), Math.min(LEFT + (this.inner * i) / count, LEFT + this.inner - 20), tall - BOTTOM / 2);
    }
  }

  /** @param {number} ns */
  x(ns) {
    return LEFT + ((ns - this.from) / (this.to - this.from)) * this.inner;
  }

  /** @param {number} lane */
  y(lane) {
    return TOP + lane * LANE + (lane >= LANES ? APART : 0);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const ns = this.from + ((event.offsetX - LEFT) / this.inner) * (this.to - this.from);
    const under = this.boxes.filter(({ start, end, lane }) => ns >= start && ns <= end && event.offsetY >= this.y(lane) && event.offsetY < this.y(lane) + LANE);
    const box = under[under.length - 1];
    if (box) this.line.textContent = `${box.text}: ${time(box.end - box.start)}`;
  }

  /** @param {PointerEvent} event */
  grab(event) {
    const [x, from, to] = [event.clientX, this.from, this.to];
    this.canvas.setPointerCapture(event.pointerId);
    const drag = (/** @type {PointerEvent} */ moved) => {
      const ns = ((x - moved.clientX) / this.inner) * (to - from);
      [this.from, this.to] = [from + ns, to + ns];
      this.view.redraw();
    };
    this.canvas.addEventListener("pointermove", drag);
    this.canvas.addEventListener("pointerup", () => this.canvas.removeEventListener("pointermove", drag), { once: true });
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.shift(event.deltaX / this.inner);
    else this.zoom(Math.exp(event.deltaY / 300), (event.offsetX - LEFT) / this.inner);
    event.preventDefault();
  }

  /** @param {number} factor @param {number} at share of the width that stays */
  zoom(factor, at = 0.5) {
    const span = this.to - this.from;
    const ns = this.from + at * span;
    const wide = Math.max(span * factor, 100);
    [this.from, this.to] = [ns - at * wide, ns + (1 - at) * wide];
    this.view.redraw();
  }

  /** @param {number} share of the width */
  shift(share) {
    const ns = (this.to - this.from) * share;
    [this.from, this.to] = [this.from + ns, this.to + ns];
    this.view.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1.4);
    else if (event.key === "ArrowLeft") this.shift(-0.2);
    else if (event.key === "ArrowRight") this.shift(0.2);
    else return;
    event.preventDefault();
  }
}

/** A colour for each name, the same wherever it is shown. @param {string} text */
function colourOf(text) {
  let sum = 7;
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) >>> 0;
  return `hsl(${HUES[sum % HUES.length]} ${38 + (sum % 3) * 8}% ${38 + ((sum >> 4) % 3) * 5}%)`;
}
