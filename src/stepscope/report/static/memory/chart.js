// Stacked areas over time on a canvas, with the peak and a cursor; the mouse moves and zooms it.

import { fitted, themed } from "stepscope/dom.js";
import { bytes, tickText } from "stepscope/format.js";
import { greatest, highest, placeAt } from "stepscope/memory/levels.js";
import { byteTicks, held, panned, timeTicks, zoomed } from "stepscope/memory/span.js";

/** @typedef {import("./levels.js").Levels} Levels */
/** @typedef {import("./span.js").Span} Span */
/**
 * @typedef {object} Shown what the chart draws
 * @property {Levels} levels
 * @property {string[]} colours names of the theme's, one a series; the first lies at the bottom
 * @property {{time: number, bytes: number} | null} peak
 * @property {{times: Float64Array, values: Float64Array} | null} reserved what the allocator holds
 */

const MARGIN = { left: 76, right: 12, top: 22, bottom: 22 };
const STILL = 4; // pixels that a click may move

export class Chart {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Shown} shown
   * @param {Span} limits
   * @param {{pick: (time: number) => void, moved: (span: Span) => void, hover: (time: number | null) => void}} on
   */
  constructor(canvas, shown, limits, on) {
    this.canvas = canvas;
    this.shown = shown;
    this.limits = limits;
    this.span = limits;
    this.on = on;
    this.cursor = 0;
    /** @type {number | null} */
    this.pointed = null;
    /** @type {{x: number, span: Span, moved: boolean, zooms: boolean} | null} */
    this.drag = null;
    this.width = 1;
    this.fit = fitted(canvas, (context, width, height) => this.draw(context, width, height));
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("dblclick", () => this.show(this.limits));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  close() {
    this.fit.close();
  }

  /** Show a stretch of time. @param {Span} span */
  show(span) {
    this.span = held(span, this.limits);
    this.on.moved(this.span);
    this.fit.redraw();
  }

  /** @param {number} factor @param {number} [at] ns, by default the cursor where it is in sight */
  zoom(factor, at) {
    const { from, to } = this.span;
    const inSight = this.cursor >= from && this.cursor <= to;
    this.show(zoomed(this.span, at ?? (inSight ? this.cursor : (from + to) / 2), factor, this.limits));
  }

  /** @param {number} part of what is shown */
  pan(part) {
    this.show(panned(this.span, part * (this.span.to - this.span.from), this.limits));
  }

  /** @param {number} time */
  setCursor(time) {
    this.cursor = time;
    this.fit.redraw();
  }

  /** @param {Shown} shown */
  setShown(shown) {
    this.shown = shown;
    this.fit.redraw();
  }

  /** The time at a place of the canvas. @param {number} x */
  timeAt(x) {
    const part = (x - MARGIN.left) / Math.max(this.width, 1);
    return this.span.from + Math.min(Math.max(part, 0), 1) * (this.span.to - this.span.from);
  }

  /** @param {number} time */
  xOf(time) {
    return MARGIN.left + ((time - this.span.from) / (this.span.to - this.span.from || 1)) * this.width;
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.offsetX, span: this.span, moved: false, zooms: event.shiftKey };
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (!this.drag) return this.point(this.seenAt(event.offsetX));
    const by = event.offsetX - this.drag.x;
    this.drag.moved ||= Math.abs(by) > STILL;
    if (!this.drag.moved) return;
    if (this.drag.zooms) return this.point(this.timeAt(event.offsetX));
    const { span } = this.drag;
    this.show(panned(span, (-by / this.width) * (span.to - span.from), this.limits));
  }

  /** @param {PointerEvent} event */
  up(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    if (!drag.moved) return this.on.pick(this.seenAt(event.offsetX));
    if (!drag.zooms) return;
    const [from, to] = [drag.x, event.offsetX].sort((a, b) => a - b).map((x) => this.timeAt(x));
    this.show({ from, to });
  }

  /** The moment that a pixel shows: its highest one. @param {number} x */
  seenAt(x) {
    const [from, to] = [this.timeAt(x - 0.5), this.timeAt(x + 0.5)];
    const { levels } = this.shown;
    const place = highest(levels, from, to, 1)[0];
    return place < 0 ? from : Math.max(levels.times[place], from);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.width);
    else this.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 400), this.timeAt(event.offsetX));
  }

  /** @param {number | null} time */
  point(time) {
    this.pointed = time;
    this.on.hover(time);
    this.fit.redraw();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  draw(context, width, height) {
    this.width = Math.max(width - MARGIN.left - MARGIN.right, 1);
    const { levels, reserved } = this.shown;
    const { from, to } = this.span;
    const held = reserved ? greatest({ times: reserved.times, series: [], total: reserved.values }, from, to) : 0;
    const ticks = byteTicks(Math.max(greatest(levels, from, to), held));
    const bottom = height - MARGIN.bottom;
    const scale = (bottom - MARGIN.top) / ticks[ticks.length - 1];
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    this.drawByteTicks(context, ticks, bottom, scale);
    this.drawAreas(context, bottom, scale);
    this.drawTimeTicks(context, bottom);
    if (reserved) this.drawReserved(context, reserved, bottom, scale);
    if (this.pointed !== null) this.line(context, this.pointed, bottom, themed("--quiet"), [3, 3]);
    this.line(context, this.cursor, bottom, themed("--text"), []);
    this.drawPeak(context, bottom, scale);
  }

  /** @param {CanvasRenderingContext2D} context @param {number[]} ticks @param {number} bottom @param {number} scale */
  drawByteTicks(context, ticks, bottom, scale) {
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const size of ticks) {
      const y = Math.round(bottom - size * scale) + 0.5;
      context.fillStyle = themed("--line");
      context.fillRect(MARGIN.left, y, this.width, 1);
      context.fillStyle = themed("--quiet");
      context.fillText(bytes(size).replace(/\.0+ /, " "), MARGIN.left - 8, y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} bottom */
  drawTimeTicks(context, bottom) {
    const { step, ticks } = timeTicks(this.span, Math.max(this.width / 120, 2));
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillStyle = themed("--quiet");
    for (const tick of ticks) {
      const x = this.xOf(tick);
      context.fillRect(Math.round(x), bottom, 1, 4);
      context.fillText(tickText(tick, step, this.span.to), Math.min(Math.max(x, MARGIN.left + 20), MARGIN.left + this.width - 20), bottom + 6);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} bottom @param {number} scale */
  drawAreas(context, bottom, scale) {
    const { levels, colours } = this.shown;
    const ratio = window.devicePixelRatio || 1;
    const columns = Math.ceil(this.width * ratio);
    const places = highest(levels, this.span.from, this.span.to, columns);
    const step = this.width / columns;
    // Edges are whole pixels, or the background would shine through between rectangles.
    const edge = (/** @type {number} */ x) => Math.round((MARGIN.left + x * step) * ratio) / ratio;
    const heights = new Float64Array(columns);
    for (const [i, column] of levels.series.entries()) {
      context.fillStyle = themed(colours[i]);
      for (let x = 0, run = 0; x < columns; x = run) {
        // Equal columns are one rectangle, since most of a chart changes at few places.
        for (run = x + 1; run < columns && places[run] === places[x]; run++);
        const size = places[x] < 0 ? 0 : column[places[x]] * scale;
        if (size > 0) context.fillRect(edge(x), bottom - heights[x] - size, edge(run) - edge(x), size);
        for (let each = x; each < run; each++) heights[each] += size;
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {{times: Float64Array, values: Float64Array}} reserved @param {number} bottom @param {number} scale */
  drawReserved(context, reserved, bottom, scale) {
    const levels = { times: reserved.times, series: [], total: reserved.values };
    const places = highest(levels, this.span.from, this.span.to, Math.ceil(this.width));
    context.strokeStyle = themed("--text");
    context.setLineDash([6, 3]);
    context.beginPath();
    for (let x = 0; x < places.length; x++) {
      if (places[x] < 0) continue;
      const y = bottom - reserved.values[places[x]] * scale;
      context.lineTo(MARGIN.left + x, y);
      context.lineTo(MARGIN.left + x + 1, y);
    }
    context.stroke();
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} bottom @param {number} scale */
  drawPeak(context, bottom, scale) {
    const { peak, levels } = this.shown;
    if (!peak || peak.time < this.span.from || peak.time > this.span.to) return;
    const x = this.xOf(peak.time);
    const y = bottom - levels.total[Math.max(placeAt(levels.times, peak.time), 0)] * scale;
    const text = `peak ${bytes(peak.bytes)}`;
    const half = context.measureText(text).width / 2;
    const middle = Math.min(Math.max(x, MARGIN.left + half), MARGIN.left + this.width - half);
    context.fillStyle = themed("--back"); // the cursor often stands here, and would cross the words
    context.fillRect(middle - half - 3, y - 21, 2 * half + 6, 15);
    context.fillStyle = themed("--bad");
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillText(text, middle, y - 7);
    context.beginPath();
    context.arc(x, y, 4, 0, 2 * Math.PI);
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} time @param {number} bottom @param {string} colour @param {number[]} dash */
  line(context, time, bottom, colour, dash) {
    if (time < this.span.from || time > this.span.to) return;
    const x = Math.round(this.xOf(time)) + 0.5;
    context.strokeStyle = colour;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, MARGIN.top);
    context.lineTo(x, bottom);
    context.stroke();
    context.setLineDash([]);
  }
}
