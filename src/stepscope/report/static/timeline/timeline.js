// The timeline itself: what is shown and selected, and the elements that show it.

import { fitted } from "stepscope/dom.js";
import { number, time } from "stepscope/format.js";
import { paintAxis, stepBeside, stepsOf } from "stepscope/timeline/axis.js";
import { countersOf, paintCounters } from "stepscope/timeline/counters.js";
import { hints, intervalDetails, sliceDetails } from "stepscope/timeline/details.js";
import { Flows } from "stepscope/timeline/flows.js";
import { frame, gutter, tools } from "stepscope/timeline/frame.js";
import { Hits, distinctNames } from "stepscope/timeline/hits.js";
import { Lanes } from "stepscope/timeline/lanes.js";
import { LINE, layout, trackKey } from "stepscope/timeline/layout.js";
import { boxOf, paintOverlay } from "stepscope/timeline/overlay.js";
import { Painter } from "stepscope/timeline/paint.js";
import { View } from "stepscope/timeline/view.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../app.js").State} State */
/** @typedef {import("./counters.js").Counter} Counter */
/** @typedef {import("./flows.js").Flow} Flow */

const MOST_ARROWS = 100;
const NOTE_AFTER_MS = 200; // browsers refuse a page that changes its address all the time

/**
 * Built once per report, however often the page is shown.
 * @type {WeakMap<Data, {lanes: Lanes, flows: Flows, names: number[], counters: Counter[]}>}
 */
const built = new WeakMap();

/** @param {Data} data */
function builtFor(data) {
  let shared = built.get(data);
  if (!shared) {
    shared = { lanes: new Lanes(data), flows: new Flows(data), names: distinctNames(data), counters: countersOf(data) };
    built.set(data, shared);
  }
  return shared;
}

export class Timeline {
  /**
   * @param {Data} data
   * @param {State} state
   * @param {(changes: State) => void} note
   */
  constructor(data, state, note) {
    this.data = data;
    this.note = note;
    const { lanes, flows, names, counters } = builtFor(data);
    this.lanes = lanes;
    this.flows = flows;
    this.names = names;
    this.counters = counters;
    this.steps = stepsOf(data);
    this.view = new View(lanes.until);
    /** @type {Set<string>} keys of the heads that are folded */
    this.closed = new Set(lanes.groups.flatMap(({ folded }, i) => (folded ? [`g${i}`] : [])));
    /** @type {Map<number, number>} how many lanes of each thread are shown */
    this.depths = new Map();
    this.layout = layout(lanes.groups, this.closed, undefined, counters);
    this.painter = new Painter(lanes);
    this.selected = -1;
    /** @type {Flow[]} */
    this.arrows = [];
    /** @type {{from: number, to: number} | null} */
    this.interval = null;
    /** @type {Hits | null} */
    this.hits = null;
    this.noting = 0;
    const parts = frame(lanes.count);
    this.element = parts.element;
    this.axis = parts.axis;
    this.canvas = parts.canvas;
    this.heads = parts.heads;
    this.scroller = parts.scroller;
    this.panel = parts.panel;
    this.tip = parts.tip;
    this.query = parts.query;
    this.found = parts.found;
    this.place = parts.place;
    parts.tools.append(...tools(this));
    this.query.addEventListener("input", () => this.search(this.query.value));
    this.scroller.addEventListener("scroll", () => {
      this.tip.hidden = true;
      this.boxes?.redraw();
    });
    /** @type {ReturnType<typeof fitted> | null} */
    this.boxes = null;
    /** @type {ReturnType<typeof fitted> | null} */
    this.ruler = null;
    this.showNames();
    this.restore(state);
  }

  get scroll() {
    return this.scroller.scrollTop;
  }

  /** Start drawing; the elements must be in the page. */
  open() {
    this.boxes = fitted(this.canvas, (context, width, height) => {
      this.view.width = Math.max(width, 1);
      this.painter.paint(context, width, height, this);
      paintCounters(context, width, height, this);
      paintOverlay(context, width, height, this);
    });
    this.ruler = fitted(this.axis, (context, width, height) => {
      this.view.width = Math.max(width, 1);
      paintAxis(context, width, height, this.view, this.steps);
    });
    if (this.selected >= 0) this.reveal(this.selected, false);
  }

  close() {
    this.boxes?.close();
    this.ruler?.close();
    clearTimeout(this.noting);
  }

  redraw() {
    this.boxes?.redraw();
    this.ruler?.redraw();
    this.place.textContent = `${time(this.view.span)} shown`;
  }

  takeTheme() {
    this.painter.takeTheme();
    if (this.selected < 0 && !this.interval) this.select(-1); // its legend has colours
    this.redraw();
  }

  /** @param {State} state */
  restore(state) {
    const [from, to] = [state.from, state.to].map(Number);
    /** @type {{from: number, to: number} | undefined} */
    const first = this.data.value("timeline.opening");
    if (state.from !== undefined && to > from) this.view.set(from, to);
    else if (first) this.view.fit(first.from, first.to);
    this.showDepths(false);
    const row = state.sel === undefined ? -1 : Number(state.sel);
    const [left, right] = (state.interval ?? "").split("-").map(Number);
    if (right > left) this.sum(left, right);
    else this.select(row >= 0 && row < this.lanes.count ? Math.floor(row) : -1);
    // A link may name a slice or a search without a time: go there.
    if (this.selected >= 0 && state.from === undefined) this.reveal(this.selected, true);
    if (state.q) {
      this.query.value = state.q;
      this.search(state.q);
    }
    if (state.q && state.from === undefined && row < 0) this.nextHit(1);
    this.redraw();
  }

  /**
   * Change the view, show it, and soon note it in the address.
   * @param {() => void} change
   * @param {boolean} [elsewhere] the view jumps: rows need not stay where they are
   */
  move(change, elsewhere = false) {
    change();
    this.tip.hidden = true; // what is under the pointer is another one now
    this.showDepths(!elsewhere);
    this.redraw();
    this.noteSoon();
  }

  /**
   * Show only the lanes with visible slices: a deep call elsewhere would otherwise
   * push all other threads off the screen. While the view moves, lanes are only added.
   * @param {boolean} growing
   */
  showDepths(growing) {
    const { lanes, view } = this;
    let changed = false;
    for (const track of lanes.groups.flatMap((group) => group.tracks)) {
      const before = this.depths.get(track.track) ?? 0;
      const now = lanes.deepest(track, view.from, view.to);
      const shown = growing ? Math.max(before, now) : now;
      changed ||= shown !== before;
      this.depths.set(track.track, shown);
    }
    if (changed) this.showNames();
  }

  noteSoon() {
    clearTimeout(this.noting);
    this.noting = window.setTimeout(() => {
      const { view, interval } = this;
      this.note({
        from: String(Math.round(view.from)),
        to: String(Math.round(view.to)),
        sel: this.selected < 0 ? "" : String(this.selected),
        interval: interval ? `${Math.round(interval.from)}-${Math.round(interval.to)}` : "",
        q: this.query.value,
      });
    }, NOTE_AFTER_MS);
  }

  /** Select a slice, -1: none. @param {number} row */
  select(row) {
    this.selected = row;
    this.interval = null;
    this.arrows = row < 0 ? [] : this.flows.of(row, MOST_ARROWS);
    const parts = row < 0 ? hints(this.painter.legend()) : sliceDetails(this.data, this.flows, row, (to) => this.jump(to));
    this.panel.replaceChildren(...parts.filter((part) => part !== null));
    this.panel.scrollTop = 0;
    this.redraw();
  }

  /** Select a slice and bring it into view. @param {number} row */
  jump(row) {
    this.select(row);
    this.reveal(row, true);
    this.noteSoon();
  }

  /** Sum an interval. @param {number} from ns @param {number} to ns */
  sum(from, to) {
    this.select(-1);
    this.interval = { from: Math.max(Math.round(from), 0), to: Math.round(to) };
    const tracks = this.lanes.groups.flatMap((group) => group.tracks);
    const parts = intervalDetails(this.data, this.interval.from, this.interval.to, tracks, (name) => {
      this.query.value = name;
      this.search(name);
    });
    this.panel.replaceChildren(...parts);
    this.redraw();
  }

  /** Bring a slice into view. @param {number} row @param {boolean} sideways its time, too */
  reveal(row, sideways) {
    const track = this.data.column("slices.track")[row];
    this.unfold(track);
    const at = this.lanes.places[row];
    const [start, end] = [this.lanes.start[at], this.lanes.end[at]];
    const { view } = this;
    const tooSmall = end - start < view.perPixel * 3 && end - start < view.span;
    if (sideways && (start > view.to || end < view.from || tooSmall)) {
      const around = Math.max((end - start) * 8, tooSmall ? 2000 : view.span);
      view.set((start + end - around) / 2, (start + end + around) / 2);
    }
    this.showDepths(true);
    const box = boxOf(this, row);
    const height = this.scroller.clientHeight;
    if (box && height && (box.top < 0 || box.top + LINE > height)) {
      this.scroller.scrollTop += box.top - height / 2;
    }
    this.redraw();
  }

  /** Open the rows of a track. @param {number} track */
  unfold(track) {
    const group = this.lanes.groups.findIndex((each) => each.tracks.some((row) => row.track === track));
    const folded = [`g${group}`, trackKey(track)].filter((key) => this.closed.delete(key));
    if (folded.length) this.showNames();
  }

  /** Fold or open rows. @param {string} key */
  fold(key) {
    if (!this.closed.delete(key)) this.closed.add(key);
    this.showNames(key);
    this.redraw();
  }

  /** @param {string} [focus] the key of the head that keeps the focus */
  showNames(focus) {
    this.layout = layout(this.lanes.groups, this.closed, ({ track, lanes }) => this.depths.get(track) ?? lanes.length, this.counters);
    this.heads.style.height = `${this.layout.height}px`;
    this.heads.replaceChildren(...gutter(this.layout, this.closed, (key) => this.fold(key)));
    if (focus) /** @type {HTMLElement | null} */ (this.heads.querySelector(`[data-key="${focus}"]`))?.focus();
  }

  fit() {
    const { interval, selected, lanes } = this;
    if (interval) this.move(() => this.view.fit(interval.from, interval.to), true);
    else if (selected >= 0) {
      const at = lanes.places[selected];
      this.move(() => this.view.fit(lanes.start[at], lanes.end[at]), true);
      this.reveal(selected, false);
    }
  }

  all() {
    this.move(() => this.view.all(), true);
  }

  /** Show the step before or after the one that is shown. @param {1 | -1} direction */
  step(direction) {
    const step = stepBeside(this.steps, this.view, direction);
    if (step) this.showStep(step);
  }

  /** @param {{start: number, end: number}} step */
  showStep({ start, end }) {
    this.move(() => this.view.fit(start, end), true);
  }

  /** @param {string} text */
  search(text) {
    this.hits = text ? new Hits(this.lanes, this.names, text) : null;
    this.found.textContent = this.hits ? `${number(this.hits.count)} ${this.hits.count === 1 ? "hit" : "hits"}` : "";
    this.redraw();
    this.noteSoon();
  }

  /** End the search. */
  leaveSearch() {
    this.query.value = "";
    this.search("");
  }

  /** @param {1 | -1} direction */
  nextHit(direction) {
    if (!this.hits?.count) return;
    const row = this.hits.next(this.selected < 0 && direction < 0 ? 0 : this.selected, direction);
    this.jump(row);
    this.found.textContent = `${number(this.hits.rank(row) + 1)} of ${number(this.hits.count)}`;
  }
}
