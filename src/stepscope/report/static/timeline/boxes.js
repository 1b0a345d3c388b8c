// Which boxes a lane shows: one for every slice at least a pixel wide, and one pixel for each group
// of narrower ones. What is drawn and what a click finds come from here.

import { search } from "stepscope/timeline/lanes.js";

/** @typedef {import("./lanes.js").Lanes} Lanes */
/** @typedef {import("./lanes.js").Lane} Lane */

/**
 * Called for each box from left to right: its first pixel, the one past its last, the places
 * [first, last) in the sorted columns that it stands for, whether it is one wide slice.
 * @typedef {(left: number, right: number, first: number, last: number, wide: boolean) => void} Visit
 */

/**
 * Visit the boxes of a lane, clipped to pixels 0 to `width`.
 *
 * Edges are rounded to pixels. Slices of a lane do not overlap, so each that is a pixel wide gets
 * pixels of its own. Only the last slice that starts in a pixel can be wide: it is looked at again,
 * as a box of its own, and leaves its first pixel to the narrow ones if it has another.
 * @param {Lanes} lanes
 * @param {Lane} lane
 * @param {number} from ns at pixel 0
 * @param {number} perPixel ns
 * @param {number} width pixels
 * @param {Visit} visit
 */
export function eachBox(lanes, lane, from, perPixel, width, visit) {
  const { start, end } = lanes;
  const { last } = lane;
  // Half a pixel around the view rounds into it: a wide slice may end there, or a narrow one begin.
  let at = search(end, from - perPixel / 2, lane.first, last);
  let free = 0; // the first pixel without a box
  while (at < last) {
    const left = Math.round((start[at] - from) / perPixel);
    if (left >= width) return;
    if (end[at] - start[at] >= perPixel) {
      const right = Math.round((end[at] - from) / perPixel);
      const first = Math.max(left, free);
      const past = Math.min(Math.max(right, first + 1), width);
      if (right > 0 && past > first) visit(first, past, at, at + 1, true);
      free = Math.max(free, past);
      at += 1;
      continue;
    }
    const next = nextPixel(start, at, last, from + (left + 0.5) * perPixel);
    const tail = end[next - 1] - start[next - 1] >= perPixel ? next - 1 : next;
    const past = Math.min(Math.round((end[next - 1] - from) / perPixel), width);
    const hidden = tail < next && past < left + 2;
    if (left >= free && !hidden) {
      visit(left, left + 1, at, tail, false);
      free = left + 1;
    }
    at = tail;
  }
}

/**
 * The first place after `at` that starts at `time` or later. Most often it is near.
 * @param {Float64Array} start
 * @param {number} at
 * @param {number} last
 * @param {number} time
 */
function nextPixel(start, at, last, time) {
  let low = at + 1;
  let reach = 1;
  while (low + reach < last && start[low + reach] < time) {
    low += reach;
    reach *= 2;
  }
  return search(start, time, low, Math.min(low + reach, last));
}

/**
 * The place of the slice at a moment, or of the nearest within `slack` ns; -1 without.
 * @param {Lanes} lanes
 * @param {Lane} lane
 * @param {number} time
 * @param {number} slack
 */
export function placeAt(lanes, lane, time, slack) {
  const { start, end } = lanes;
  const next = search(end, time, lane.first, lane.last, true);
  let best = -1;
  let distance = slack;
  for (const at of [next - 1, next]) {
    if (at < lane.first || at >= lane.last) continue;
    const away = Math.max(start[at] - time, time - end[at], 0);
    if (away < distance || (away <= distance && best < 0)) [best, distance] = [at, away];
  }
  return best;
}
