// The axis over the rows: ticks of time, and steps as bookmarks.

import { themed } from "stepscope/dom.js";
import { tickText } from "stepscope/format.js";
import { ticks } from "stepscope/timeline/view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {{number: number, start: number, end: number}} Step */

export const STEPS_TOP = 22; // CSS pixels: ticks stand above, steps below
export const AXIS_HEIGHT = 44;
const TICK_ROOM = 110;
const FILLED = 3; // times a step: a view that is wider shows several
const LEAST_STEP = 3; // pixels: closer together, steps are not drawn one by one

/** @param {import("../decode.js").Data} data @returns {Step[]} */
export function stepsOf(data) {
  const start = data.column("steps.start");
  const duration = data.column("steps.duration");
  return Array.from(data.column("steps.number"), (number, i) => ({
    number,
    start: start[i],
    end: start[i] + duration[i],
  })).sort((a, b) => a.start - b.start);
}

/**
 * The step to go to: the neighbour of the one that fills the view; if none does, the first or last
 * visible one.
 * @param {Step[]} steps
 * @param {{from: number, to: number}} view
 * @param {1 | -1} direction
 */
export function stepBeside(steps, { from, to }, direction) {
  const middle = (from + to) / 2;
  const here = steps.findIndex(({ start, end }) => start <= middle && middle < end && to - from < FILLED * (end - start));
  if (here >= 0) return steps[here + direction];
  if (direction > 0) return steps.find((step) => step.end > from);
  return steps.filter((step) => step.start < to).at(-1);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {number} height
 * @param {View} view
 * @param {Step[]} steps
 */
export function paintAxis(context, width, height, view, steps) {
  context.fillStyle = themed("--panel");
  context.fillRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const { moments, step } = ticks(view.from, view.to, width / TICK_ROOM);
  const largest = Math.max(...moments.map(Math.abs), step);
  for (const moment of moments) {
    const x = Math.round(view.pixelAt(moment)) + 0.5;
    context.fillStyle = themed("--line");
    context.fillRect(x, 0, 1, STEPS_TOP);
    context.fillStyle = themed("--quiet");
    context.fillText(tickText(moment, step, largest), x + 4, STEPS_TOP / 2);
  }
  paintSteps(context, width, view, steps);
  context.fillStyle = themed("--line");
  context.fillRect(0, height - 1, width, 1);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {View} view
 * @param {Step[]} steps
 */
function paintSteps(context, width, view, steps) {
  const [line, text, back] = [themed("--accent"), themed("--text"), themed("--back")];
  let drawn = -LEAST_STEP;
  for (const { number, start, end } of steps) {
    const left = view.pixelAt(start);
    const right = view.pixelAt(end);
    if (right < 0 || left > width || right - drawn < LEAST_STEP) continue;
    drawn = right;
    const [from, to] = [Math.max(left, 0), Math.min(right, width)];
    context.fillStyle = back;
    context.fillRect(from, STEPS_TOP + 1, to - from - 1, AXIS_HEIGHT - STEPS_TOP - 3);
    context.fillStyle = line;
    context.fillRect(Math.round(left), STEPS_TOP + 1, 2, AXIS_HEIGHT - STEPS_TOP - 3);
    const label = `Step ${number}`;
    if (to - from < context.measureText(label).width + 10) continue;
    context.fillStyle = text;
    context.fillText(label, from + 6, (STEPS_TOP + AXIS_HEIGHT) / 2);
  }
}
