// The sum of an interval: what ran in it, by name.

import { search } from "stepscope/timeline/lanes.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {{name: number, kind: number, count: number, total: number, self: number}} Sum */

/**
 * The sums of all slices of some tracks, each cut to the interval; the most self time first.
 *
 * A slice inside the interval has its own self time. A cut slice has what it and
 * its cut children leave.
 * @param {Data} data
 * @param {number} from ns
 * @param {number} to ns
 * @param {(track: number) => boolean} [among]
 * @returns {Sum[]}
 */
export function sums(data, from, to, among = () => true) {
  const start = data.column("slices.start");
  const duration = data.column("slices.duration");
  const children = data.column("slices.self"); // duration less self time
  const up = data.column("slices.up");
  const name = data.column("slices.name");
  const track = data.column("slices.track");
  const kind = data.column("slices.kind");
  const taken = (data.value("tracks") ?? []).map((/** @type {any} */ _, /** @type {number} */ i) => among(i));
  /** @type {Map<number, Sum>} */
  const byName = new Map();
  const last = search(start, to, 0, start.length);
  /** @param {number} row */
  const sumOf = (row) => {
    const key = name[row] * 256 + kind[row];
    let sum = byName.get(key);
    if (!sum) byName.set(key, (sum = { name: name[row], kind: kind[row], count: 0, total: 0, self: 0 }));
    return sum;
  };
  for (let row = 0; row < last; row++) {
    const end = start[row] + duration[row];
    if (end < from || !taken[track[row]] || (end === from && duration[row] > 0)) continue;
    const inside = start[row] >= from && end <= to;
    const cut = inside ? duration[row] : Math.min(end, to) - Math.max(start[row], from);
    const sum = sumOf(row);
    sum.count += 1;
    sum.total += cut;
    sum.self += inside ? duration[row] - children[row] : cut;
    if (!up[row]) continue;
    const parent = row - up[row];
    const parentInside = start[parent] >= from && start[parent] + duration[parent] <= to;
    if (!parentInside) sumOf(parent).self -= cut;
  }
  return [...byName.values()].sort((a, b) => b.self - a.self || b.total - a.total);
}
