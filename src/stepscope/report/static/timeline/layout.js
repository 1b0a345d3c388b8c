// The positions of the rows: processes with their threads below, each as high as its lanes.

/** @typedef {import("./lanes.js").Group} Group */
/** @typedef {import("./lanes.js").Lane} Lane */
/** @typedef {import("./lanes.js").TrackRow} TrackRow */
/** @typedef {{top: number, lane: Lane, track: number}} Line one lane on the screen */
/** @typedef {import("./counters.js").Counter} Counter */
/** @typedef {{top: number, height: number, key: string, group?: Group, track?: TrackRow, counter?: Counter}} Head */
/** @typedef {{lines: Line[], heads: Head[], height: number, tops: Map<number, number>, lanes: Map<number, number>}} Layout where each thread's lines begin, and how many are shown */

export const LINE = 18; // CSS pixels, as all below
export const BOX = 16; // of a line, the rest is a gap
export const HEAD = 22;
const GAP = 6;
const COUNTER = 34;

/**
 * @param {Group[]} groups
 * @param {ReadonlySet<string>} closed keys of the heads that are folded
 * @param {(track: TrackRow) => number} [shown] how many of a thread's lanes to show, by default all
 * @param {readonly Counter[]} [counters] numbers over time, below the rows of their group
 * @returns {Layout}
 */
export function layout(groups, closed, shown = (track) => track.lanes.length, counters = []) {
  /** @type {Layout} */
  const result = { lines: [], heads: [], height: 0, tops: new Map(), lanes: new Map() };
  let top = 0;
  groups.forEach((group, i) => {
    const key = `g${i}`;
    result.heads.push({ top, height: HEAD, key, group });
    top += HEAD;
    if (closed.has(key)) return;
    for (const track of group.tracks) {
      top = addTrack(result, track, closed.has(trackKey(track.track)) ? 1 : Math.max(shown(track), 1), top);
    }
    for (const counter of counters) {
      if (counter.group !== group.name) continue;
      result.heads.push({ top, height: COUNTER, key: `c${counter.number}`, counter });
      top += COUNTER;
    }
  });
  result.height = top;
  return result;
}

/** @param {number} track */
export function trackKey(track) {
  return `t${track}`;
}

/**
 * A folded thread shows its first line.
 * @param {Layout} result
 * @param {TrackRow} track
 * @param {number} shown
 * @param {number} top
 */
function addTrack(result, track, shown, top) {
  const lanes = track.lanes.slice(0, shown);
  const height = lanes.length * LINE + GAP;
  result.heads.push({ top, height, key: trackKey(track.track), track });
  result.tops.set(track.track, top);
  result.lanes.set(track.track, lanes.length);
  lanes.forEach((lane, i) => {
    result.lines.push({ top: top + i * LINE, lane, track: track.track });
  });
  return top + height;
}

/**
 * The line at a height, null between them.
 * @param {Layout} layout
 * @param {number} y
 */
export function lineAt({ lines }, y) {
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lines[middle].top + LINE <= y) low = middle + 1;
    else high = middle;
  }
  const line = lines[low];
  return line && line.top <= y ? line : null;
}

/**
 * The lines that are seen.
 * @param {Layout} layout
 * @param {number} scroll
 * @param {number} height
 */
export function linesWithin({ lines }, scroll, height) {
  return lines.filter((line) => line.top + LINE > scroll && line.top < scroll + height);
}
