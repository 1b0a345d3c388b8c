// Numbers of devices over time, each a row of its own: power, clocks, temperature.

import { themed } from "stepscope/dom.js";
import { number } from "stepscope/format.js";
import { search } from "stepscope/timeline/lanes.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./view.js").View} View */
/** @typedef {{name: string, unit: string, group: string}} Stored */
/**
 * @typedef {object} Counter
 * @property {number} number
 * @property {string} name
 * @property {string} unit
 * @property {string} group the device's row that it stands under
 * @property {ArrayLike<number>} time ns, ascending
 * @property {ArrayLike<number>} values
 * @property {number} most
 */

const GAP = 5; // CSS pixels below a curve

/** @param {Data} data @returns {Counter[]} */
export function countersOf(data) {
  /** @type {Stored[]} */
  const stored = data.value("timeline.counters") ?? [];
  return stored.map((counter, i) => {
    const values = data.column(`counters.${i}.value`);
    let most = 0;
    for (let at = 0; at < values.length; at++) most = Math.max(most, values[at]);
    return { number: i, ...counter, time: data.column(`counters.${i}.time`), values, most };
  });
}

/** The last value of a counter at a moment; null before its first. @param {Counter} counter @param {number} moment ns */
export function valueAt({ time, values }, moment) {
  const at = search(time, moment, 0, time.length, true) - 1;
  return at < 0 ? null : values[at];
}

/** The value of a counter at a moment, as text. @param {Counter} counter @param {number} moment ns */
export function counterText(counter, moment) {
  const value = valueAt(counter, moment);
  return value === null ? "" : `${counter.name} — ${number(value)} ${counter.unit}`;
}

/** The counter whose row is at a height. @param {Layout} layout @param {number} y */
export function counterAt({ heads }, y) {
  return heads.find(({ counter, top, height }) => counter && y >= top && y < top + height)?.counter ?? null;
}

/**
 * Draw the curves that are in sight: from 0 at the bottom of a row to the most at its top.
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {number} height
 * @param {{view: View, layout: Layout, scroll: number}} scene
 */
export function paintCounters(context, width, height, { view, layout, scroll }) {
  for (const { counter, top, height: room } of layout.heads) {
    if (!counter || top + room < scroll || top > scroll + height || !counter.time.length) continue;
    const bottom = top + room - GAP - scroll;
    const scale = (room - GAP - 2) / Math.max(counter.most, 1e-9);
    const path = curve(counter, view, width, (value) => bottom - value * scale);
    context.fillStyle = context.strokeStyle = themed("--accent");
    context.lineWidth = 1;
    context.stroke(path.line);
    path.line.lineTo(path.right, bottom);
    path.line.lineTo(path.left, bottom);
    context.globalAlpha = 0.2;
    context.fill(path.line);
    context.globalAlpha = 1;
  }
}

/**
 * The visible steps of a curve; the highest of the values that share a pixel.
 * @param {Counter} counter
 * @param {View} view
 * @param {number} width
 * @param {(value: number) => number} y
 */
function curve({ time, values }, view, width, y) {
  const line = new Path2D();
  let at = Math.max(search(time, view.from, 0, time.length) - 1, 0);
  const left = Math.max(view.pixelAt(time[at]), -1);
  line.moveTo(left, y(values[at]));
  let right = left;
  while (at < time.length && right < width) {
    const x = Math.max(view.pixelAt(time[at]), -1);
    let most = values[at++];
    while (at < time.length && view.pixelAt(time[at]) < x + 1) most = Math.max(most, values[at++]);
    // A value holds until the next; the last one was read when the recording ended.
    right = at < time.length ? Math.min(view.pixelAt(time[at]), width + 1) : x;
    line.lineTo(x, y(most));
    line.lineTo(right, y(most));
  }
  return { line, left, right };
}
