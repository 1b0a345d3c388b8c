// Slices sorted into lanes: the lines of the timeline, on each of which no two slices overlap.

/** @typedef {import("../decode.js").Data} Data */
/**
 * @typedef {object} Lane where the slices of a lane lie in the sorted columns
 * @property {number} first
 * @property {number} last one past the end
 */
/** @typedef {{track: number, name: string, group: string, lanes: Lane[]}} TrackRow */
/** @typedef {{name: string, folded: boolean, tracks: TrackRow[]}} Group folded: as long as nobody opens it */
/** @typedef {{track: number, name: string, lanes: number}} StoredTrack */
/** @typedef {{name: string, folded?: boolean, tracks: StoredTrack[]}} StoredGroup */

/** The sorted columns; within a lane both starts and ends ascend. */
export class Lanes {
  /** @param {Data} data */
  constructor(data) {
    const start = data.column("slices.start");
    const duration = data.column("slices.duration");
    const track = data.column("slices.track");
    this.data = data;
    this.count = start.length;
    this.lane = laneOf(data);
    /** @type {StoredGroup[]} */
    const stored = data.value("timeline.groups") ?? [];
    const firstLane = firstLanes(stored);
    /** The row of the slice at a place. */
    this.rows = new Uint32Array(this.count);
    /** The place of a row. */
    this.places = new Uint32Array(this.count);
    const bounds = this.sort(track, firstLane);
    this.start = new Float64Array(this.count);
    this.end = new Float64Array(this.count);
    /** Time covered by all slices before a place, which tells how full a pixel is. */
    this.covered = new Float64Array(this.count + 1);
    this.until = 0;
    for (let at = 0; at < this.count; at++) {
      const row = this.rows[at];
      this.start[at] = start[row];
      this.end[at] = start[row] + duration[row];
      this.covered[at + 1] = this.covered[at] + duration[row];
      if (this.end[at] > this.until) this.until = this.end[at];
    }
    this.groups = groupsOf(stored, firstLane, bounds);
  }

  /**
   * The number of lanes that an interval needs: up to the deepest visible slice.
   * @param {TrackRow} track
   * @param {number} from ns
   * @param {number} to ns
   */
  deepest(track, from, to) {
    for (let i = track.lanes.length - 1; i >= 0; i--) {
      const { first, last } = track.lanes[i];
      const at = search(this.end, from, first, last);
      if (at < last && this.start[at] <= to) return i + 1;
    }
    return 0;
  }

  /**
   * Sort rows by lane with a counting sort, which keeps their order of start.
   * @param {ArrayLike<number>} track
   * @param {number[]} firstLane of each track
   * @returns {Uint32Array} where each lane begins, and where the last ends
   */
  sort(track, firstLane) {
    const total = firstLane[firstLane.length - 1] ?? 0;
    const bounds = new Uint32Array(total + 1);
    const { lane, count } = this;
    for (let row = 0; row < count; row++) bounds[firstLane[track[row]] + lane[row] + 1]++;
    for (let i = 1; i <= total; i++) bounds[i] += bounds[i - 1];
    const next = bounds.slice();
    for (let row = 0; row < count; row++) {
      const at = next[firstLane[track[row]] + lane[row]]++;
      this.rows[at] = row;
      this.places[row] = at;
    }
    return bounds;
  }
}

/**
 * The line of each slice within its track: its depth, moved if Python found it taken.
 * @param {Data} data
 * @returns {ArrayLike<number>}
 */
function laneOf(data) {
  const depth = data.column("slices.depth");
  if (!data.has("timeline.shift")) return depth;
  const shift = data.column("timeline.shift");
  return Int32Array.from(depth, (value, row) => value + shift[row]);
}

/**
 * The number of each track's first lane, by track; the last entry is the number of lanes.
 * @param {StoredGroup[]} groups
 */
function firstLanes(groups) {
  /** @type {number[]} */
  const first = [];
  let total = 0;
  for (const group of groups) {
    for (const { track, lanes } of group.tracks) {
      first[track] = total;
      total += lanes;
    }
  }
  first.push(total);
  return first;
}

/**
 * @param {StoredGroup[]} stored
 * @param {number[]} firstLane
 * @param {Uint32Array} bounds
 * @returns {Group[]}
 */
function groupsOf(stored, firstLane, bounds) {
  return stored.map((group) => ({
    name: group.name,
    folded: group.folded ?? false,
    tracks: group.tracks.map(({ track, name, lanes }) => ({
      track,
      name,
      group: group.name,
      lanes: Array.from({ length: lanes }, (_, i) => ({
        first: bounds[firstLane[track] + i],
        last: bounds[firstLane[track] + i + 1],
      })),
    })),
  }));
}

/**
 * The first place in [low, high) whose value is at least (or, with `above`, more than) the wanted.
 * @param {ArrayLike<number>} values ascending there
 * @param {number} wanted
 * @param {number} low
 * @param {number} high
 * @param {boolean} [above]
 */
export function search(values, wanted, low, high, above = false) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < wanted || (above && values[middle] === wanted)) low = middle + 1;
    else high = middle;
  }
  return low;
}
