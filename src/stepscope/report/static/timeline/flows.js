// Ties between slices: a call and the device work it launched, a forward operator and its backward.

import { search } from "stepscope/timeline/lanes.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {{from: number, to: number}} Flow rows */

export class Flows {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.launched = new Ties(data.column("launches.call"), data.column("launches.work"));
    this.backward = new Ties(data.column("flows.forward"), data.column("flows.backward"));
  }

  /** The call that launched a slice of device work, -1 without. @param {number} row */
  launchOf(row) {
    return this.launched.from(row);
  }

  /** The device work launched by a slice or anything inside it. @param {number} row */
  workOf(row) {
    return this.launched.to(row, this.lastInside(row), (call) => this.isInside(call, row));
  }

  /** The forward operator of a backward function, -1 without. @param {number} row */
  forwardOf(row) {
    return this.backward.from(row);
  }

  /** The backward functions of a slice's operators. @param {number} row */
  backwardOf(row) {
    return this.backward.to(row, this.lastInside(row), (forward) => this.isInside(forward, row));
  }

  /**
   * The arrows to draw for a slice: to the first work that it launched, from its launch, and
   * between forward and backward.
   * @param {number} row
   * @param {number} most
   * @returns {Flow[]}
   */
  of(row, most) {
    const flows = this.workTies(row, most);
    const call = this.launchOf(row);
    if (call >= 0) flows.push({ from: call, to: row });
    const forward = this.forwardOf(row);
    if (forward >= 0) flows.push({ from: forward, to: row });
    for (const to of this.backward.to(row, row + 1, () => true)) flows.push({ from: row, to });
    return flows;
  }

  /** @param {number} row @param {number} most */
  workTies(row, most) {
    const work = this.workOf(row);
    return work.slice(0, most).map((to) => ({ from: this.launchOf(to), to }));
  }

  /** One past the last row that can lie inside a slice. @param {number} row */
  lastInside(row) {
    const start = this.data.column("slices.start");
    const end = start[row] + this.data.column("slices.duration")[row];
    return Math.max(search(start, end, row, start.length), row + 1);
  }

  /** @param {number} inner @param {number} outer rows */
  isInside(inner, outer) {
    let row = inner;
    while (row > outer) row = this.data.parent(row);
    return row === outer;
  }
}

/** Pairs of rows, found from either side. */
class Ties {
  /**
   * @param {ArrayLike<number>} from
   * @param {ArrayLike<number>} to ascending
   */
  constructor(from, to) {
    this.target = to;
    this.source = from;
    /** @type {{order: Uint32Array, sources: Float64Array} | null} sorted when first asked for */
    this.bySource = null;
  }

  sorted() {
    if (!this.bySource) {
      const { source, target } = this;
      const order = Uint32Array.from({ length: source.length }, (_, i) => i);
      order.sort((a, b) => source[a] - source[b] || target[a] - target[b]);
      this.bySource = { order, sources: Float64Array.from(order, (i) => source[i]) };
    }
    return this.bySource;
  }

  /** @param {number} row a target @returns {number} its source, -1 without */
  from(row) {
    const at = search(this.target, row, 0, this.target.length);
    return at < this.target.length && this.target[at] === row ? this.source[at] : -1;
  }

  /**
   * The targets of the sources in [first, last) that are wanted, ascending.
   * @param {number} first
   * @param {number} last
   * @param {(row: number) => boolean} wanted
   */
  to(first, last, wanted) {
    const targets = [];
    const { order, sources } = this.sorted();
    let at = search(sources, first, 0, sources.length);
    for (; at < sources.length && sources[at] < last; at++) {
      if (wanted(sources[at])) targets.push(this.target[order[at]]);
    }
    return targets.sort((a, b) => a - b);
  }
}
