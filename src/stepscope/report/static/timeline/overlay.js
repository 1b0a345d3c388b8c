// What is drawn over the boxes: the selection, the interval, flows, and the steps' edges.

import { themed } from "stepscope/dom.js";
import { BOX, LINE, trackKey } from "stepscope/timeline/layout.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

/**
 * The rectangle of a slice on the canvas; of one on a folded row, that of the row.
 * @param {Timeline} timeline
 * @param {number} row
 */
export function boxOf(timeline, row) {
  const { lanes, view, layout, closed } = timeline;
  const track = lanes.data.column("slices.track")[row];
  const top = layout.tops.get(track);
  const at = lanes.places[row];
  const left = view.pixelAt(lanes.start[at]);
  const right = Math.max(view.pixelAt(lanes.end[at]), left + 1);
  if (top === undefined) return null;
  const lane = closed.has(trackKey(track)) ? 0 : lanes.lane[row];
  if (lane >= (layout.lanes.get(track) ?? 0)) return null; // deeper than anything that is in sight
  return { left, right, top: top + lane * LINE - timeline.scroll, height: BOX };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {number} height
 * @param {Timeline} timeline
 */
export function paintOverlay(context, width, height, timeline) {
  paintStepEdges(context, width, height, timeline);
  paintInterval(context, height, timeline);
  if (timeline.selected < 0) return;
  const text = themed("--text");
  const box = boxOf(timeline, timeline.selected);
  if (box) {
    const left = Math.max(box.left, -4);
    const right = Math.min(box.right, width + 4);
    context.strokeStyle = text;
    context.lineWidth = 2;
    context.strokeRect(left, box.top, Math.max(right - left, 2), box.height);
  }
  paintFlows(context, timeline);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {number} height
 * @param {Timeline} timeline
 */
function paintStepEdges(context, width, height, { steps, view }) {
  context.fillStyle = themed("--accent");
  context.globalAlpha = 0.25;
  let drawn = -4;
  for (const { start } of steps) {
    const x = view.pixelAt(start);
    if (x < 0 || x > width || x - drawn < 4) continue;
    context.fillRect(Math.round(x), 0, 1, height);
    drawn = x;
  }
  context.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} context @param {number} height @param {Timeline} timeline */
function paintInterval(context, height, { interval, view }) {
  if (!interval) return;
  const left = view.pixelAt(interval.from);
  const right = view.pixelAt(interval.to);
  context.fillStyle = themed("--accent");
  context.globalAlpha = 0.15;
  context.fillRect(left, 0, right - left, height);
  context.globalAlpha = 1;
  context.fillRect(left, 0, 1, height);
  context.fillRect(right, 0, 1, height);
}

/** @param {CanvasRenderingContext2D} context @param {Timeline} timeline */
function paintFlows(context, timeline) {
  context.strokeStyle = context.fillStyle = themed("--mark");
  context.lineWidth = 1.5;
  for (const flow of timeline.arrows) {
    const [from, to] = [boxOf(timeline, flow.from), boxOf(timeline, flow.to)];
    if (!from || !to) continue;
    const x0 = Math.min(from.left + 2, from.right);
    const [x1, y0, y1] = [to.left, from.top + from.height / 2, to.top + to.height / 2];
    const bend = Math.max(Math.abs(x1 - x0) / 2, 20);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 6, y1 - 3.5);
    context.lineTo(x1 - 6, y1 + 3.5);
    context.fill();
  }
}
