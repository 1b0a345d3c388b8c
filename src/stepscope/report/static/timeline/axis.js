// The axis over the rows: ticks of time, and steps as bookmarks.

import { themed } from "stepscope/dom.js";
import { tickText } from "stepscope/format.js";
import { ticks } from "stepscope/timeline/view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {{number: number, start: number, end: number}} Step */

export const STEPS_TOP = 22; // CSS pixels: ticks stand above, steps below
export const AXIS_HEIGHT = 44;
const TICK_ROOM = 110;
const LOST = 0.3; // of the trace: steps shorter than that need a closer look
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
 * What to show first: everything, or the steps when they are lost in what came before them (such as
 * imports). A first step that holds all before it does not count.
 * @param {import("../decode.js").Data} data
 * @param {number} until ns: the end of the trace
 * @returns {{from: number, to: number} | null} null: everything
 */
export function worthSeeing(data, until) {
  const whole = data.column("steps.is_whole");
  const steps = stepsOf(data).filter((_, i) => whole[i] !== 0);
  if (!steps.length) return null;
  const from = steps[0].start;
  const to = steps.reduce((latest, step) => Math.max(latest, step.end), 0);
  return to - from < until * LOST ? { from, to } : null;
}

/**
 * The step to jump to: the next that starts after the view's middle step, or the one before.
 * @param {Step[]} steps
 * @param {number} moment ns: the middle of what is shown
 * @param {1 | -1} direction
 */
export function stepBeside(steps, moment, direction) {
  if (direction > 0) return steps.find((step) => step.start > moment);
  return steps.filter((step) => step.end < moment).at(-1);
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
