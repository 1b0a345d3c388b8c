// Mouse and keys of the timeline.

import { isTyping } from "stepscope/app.js";
import { time } from "stepscope/format.js";
import { STEPS_TOP } from "stepscope/timeline/axis.js";
import { placeAt } from "stepscope/timeline/boxes.js";
import { counterAt, counterText } from "stepscope/timeline/counters.js";
import { childrenOf } from "stepscope/timeline/facts.js";
import { LINE, lineAt } from "stepscope/timeline/layout.js";
import { shown } from "stepscope/timeline/paint.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

const CLICK = 3; // CSS pixels: a press that moves less is a click, and finds boxes that near
const PAN_SHARE = 0.12; // of the view, a key
const ZOOM = 1.35; // a key

/** The row of the slice under a point of the canvas, -1 without. @param {Timeline} timeline @param {MouseEvent} event */
function rowUnder(timeline, event) {
  const line = lineAt(timeline.layout, event.offsetY + timeline.scroll);
  if (!line) return -1;
  const { view, lanes } = timeline;
  const at = placeAt(lanes, line.lane, view.timeAt(event.offsetX), view.perPixel * CLICK);
  return at < 0 ? -1 : lanes.rows[at];
}

/** Listen; the result stops listening. @param {Timeline} timeline @param {boolean} [keys] to those of the page, too */
export function listen(timeline, keys = true) {
  const { canvas, axis } = timeline;
  const ending = new AbortController();
  const { signal } = ending;
  for (const element of [canvas, axis]) {
    element.addEventListener("wheel", (event) => wheel(timeline, event), { signal, passive: false });
  }
  canvas.addEventListener("pointerdown", (event) => press(timeline, event, event.shiftKey), { signal });
  axis.addEventListener("pointerdown", (event) => press(timeline, event, true), { signal });
  canvas.addEventListener("pointermove", (event) => hover(timeline, event), { signal });
  canvas.addEventListener("pointerleave", () => (timeline.tip.hidden = true), { signal });
  canvas.addEventListener("dblclick", () => timeline.fit(), { signal });
  timeline.query.addEventListener("keydown", (event) => typed(timeline, event), { signal });
  if (keys) window.addEventListener("keydown", (event) => key(timeline, event), { signal });
  return () => ending.abort();
}

/** @param {Timeline} timeline @param {WheelEvent} event */
function wheel(timeline, event) {
  event.preventDefault();
  const { view } = timeline;
  const sideways = event.shiftKey ? event.deltaY : event.deltaX;
  if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
    timeline.move(() => view.pan(sideways));
  } else timeline.move(() => view.zoom(1.0015 ** -event.deltaY, event.offsetX));
  if (event.target === timeline.canvas) hover(timeline, event);
}

/**
 * Drag to move, or to select an interval; without a move it is a click.
 * @param {Timeline} timeline
 * @param {PointerEvent} event
 * @param {boolean} selects
 */
function press(timeline, event, selects) {
  if (event.button !== 0) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const { view, scroller } = timeline;
  const first = view.timeAt(event.offsetX);
  let [x, y] = [event.clientX, event.clientY];
  let dragged = false;
  timeline.tip.hidden = true;
  target.setPointerCapture(event.pointerId);
  /** @param {PointerEvent} moved */
  const drag = (moved) => {
    dragged ||= Math.hypot(moved.clientX - event.clientX, moved.clientY - event.clientY) > CLICK;
    if (!dragged) return;
    if (selects) {
      const ends = [first, view.timeAt(moved.offsetX)].sort((a, b) => a - b);
      timeline.interval = { from: Math.max(ends[0], 0), to: ends[1] };
      timeline.redraw();
      return;
    }
    scroller.scrollTop -= moved.clientY - y;
    timeline.move(() => view.pan(x - moved.clientX));
    [x, y] = [moved.clientX, moved.clientY];
  };
  const stop = () => {
    target.removeEventListener("pointermove", drag);
    target.removeEventListener("pointerup", stop);
    target.removeEventListener("pointercancel", stop);
    if (!dragged) click(timeline, event, target);
    else if (selects && timeline.interval) timeline.sum(timeline.interval.from, timeline.interval.to);
    timeline.noteSoon();
  };
  target.addEventListener("pointermove", drag);
  target.addEventListener("pointerup", stop);
  target.addEventListener("pointercancel", stop);
}

/** @param {Timeline} timeline @param {PointerEvent} event @param {HTMLElement} target */
function click(timeline, event, target) {
  if (target === timeline.canvas) {
    timeline.select(rowUnder(timeline, event));
    return;
  }
  if (event.offsetY < STEPS_TOP) return;
  const moment = timeline.view.timeAt(event.offsetX);
  const step = timeline.steps.find(({ start, end }) => start <= moment && moment < end);
  if (step) timeline.showStep(step);
}

/** Show a tip for the slice under the pointer. @param {Timeline} timeline @param {MouseEvent} event */
function hover(timeline, event) {
  const row = event.buttons ? -1 : rowUnder(timeline, event);
  const { tip, element } = timeline;
  const text = event.buttons ? "" : row < 0 ? counterUnder(timeline, event) : sliceText(timeline, row);
  tip.hidden = !text;
  timeline.canvas.style.cursor = row < 0 ? "grab" : "pointer";
  if (!text) return;
  tip.textContent = text;
  const frame = element.getBoundingClientRect();
  const left = Math.min(event.clientX - frame.left + 12, frame.width - tip.offsetWidth - 4);
  const below = event.clientY - frame.top + 18;
  const top = below + tip.offsetHeight > frame.height ? below - tip.offsetHeight - 30 : below;
  tip.style.transform = `translate(${Math.round(Math.max(left, 0))}px, ${Math.round(top)}px)`;
}

/** @param {Timeline} timeline @param {number} row */
function sliceText({ data }, row) {
  const name = shown(data.text(data.column("slices.name")[row]));
  return `${name} — ${time(data.column("slices.duration")[row])}`;
}

/** The value of the counter under a point of the canvas, "" without. @param {Timeline} timeline @param {MouseEvent} event */
function counterUnder({ layout, scroll, view }, event) {
  const counter = counterAt(layout, event.offsetY + scroll);
  return counter ? counterText(counter, view.timeAt(event.offsetX)) : "";
}

/** Enter in the search goes to the next hit, Escape ends it. @param {Timeline} timeline @param {KeyboardEvent} event */
function typed(timeline, event) {
  if (event.key === "Enter") timeline.nextHit(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    timeline.leaveSearch();
    timeline.canvas.focus();
  }
}

/** @param {Timeline} timeline @param {KeyboardEvent} event */
function key(timeline, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
  const action = (event.shiftKey ? SHIFTED : PLAIN)[event.key] ?? PLAIN[event.key];
  if (!action) return;
  action(timeline);
  event.preventDefault();
}

/** @param {Timeline} timeline @param {number} share of the view */
const pan = (timeline, share) => timeline.move(() => timeline.view.pan(share * timeline.view.width));
/** @param {Timeline} timeline @param {number} factor */
const zoom = (timeline, factor) => timeline.move(() => timeline.view.zoom(factor));

/** @type {Record<string, (timeline: Timeline) => void>} */
const PLAIN = {
  w: (timeline) => zoom(timeline, ZOOM),
  s: (timeline) => zoom(timeline, 1 / ZOOM),
  a: (timeline) => pan(timeline, -PAN_SHARE),
  d: (timeline) => pan(timeline, PAN_SHARE),
  ArrowLeft: (timeline) => pan(timeline, -PAN_SHARE),
  ArrowRight: (timeline) => pan(timeline, PAN_SHARE),
  ArrowUp: (timeline) => void (timeline.scroller.scrollTop -= 3 * LINE),
  ArrowDown: (timeline) => void (timeline.scroller.scrollTop += 3 * LINE),
  PageUp: (timeline) => void (timeline.scroller.scrollTop -= timeline.scroller.clientHeight),
  PageDown: (timeline) => void (timeline.scroller.scrollTop += timeline.scroller.clientHeight),
  f: (timeline) => timeline.fit(),
  0: (timeline) => timeline.all(),
  "[": (timeline) => timeline.step(-1),
  "]": (timeline) => timeline.step(1),
  n: (timeline) => timeline.nextHit(1),
  N: (timeline) => timeline.nextHit(-1),
  m: sumSelected,
  Escape: (timeline) => {
    if (timeline.hits) timeline.leaveSearch();
    else timeline.select(-1);
    timeline.noteSoon();
  },
};

/** @type {Record<string, (timeline: Timeline) => void>} */
const SHIFTED = {
  ArrowRight: (timeline) => beside(timeline, 1),
  ArrowLeft: (timeline) => beside(timeline, -1),
  ArrowUp: (timeline) => jumpTo(timeline, timeline.selected < 0 ? -1 : timeline.data.parent(timeline.selected)),
  ArrowDown: (timeline) => jumpTo(timeline, timeline.selected < 0 ? -1 : (childrenOf(timeline.data, timeline.selected)[0] ?? -1)),
};

/** @param {Timeline} timeline @param {number} row */
function jumpTo(timeline, row) {
  if (row >= 0) timeline.jump(row);
}

/** The slice beside the selected one on its line; without one, the first of the first line. @param {Timeline} timeline @param {number} direction */
function beside(timeline, direction) {
  const { lanes, selected, layout } = timeline;
  if (selected < 0) {
    const line = layout.lines[0];
    if (line) timeline.jump(lanes.rows[line.lane.first]);
    return;
  }
  const track = lanes.data.column("slices.track");
  const row = lanes.rows[lanes.places[selected] + direction];
  if (row === undefined || track[row] !== track[selected] || lanes.lane[row] !== lanes.lane[selected]) return;
  timeline.jump(row);
}

/** Sum the interval of the selected slice, or of the view. @param {Timeline} timeline */
function sumSelected(timeline) {
  const { selected, lanes, view } = timeline;
  const at = selected < 0 ? -1 : lanes.places[selected];
  if (at < 0) timeline.sum(view.from, view.to);
  else timeline.sum(lanes.start[at], lanes.end[at]);
  timeline.noteSoon();
}
