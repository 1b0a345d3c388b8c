// Bytes in use over time, and what was in use at one moment: sums over the blocks' columns.

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../decode.js").Column} Column */
/**
 * @typedef {object} Blocks one row per block of memory, in the order of their starts
 * @property {Column} start ns
 * @property {Column} life ns; what is there to the end lives beyond it
 * @property {Column} size bytes
 * @property {Column} category
 * @property {Column} device
 * @property {Column} slice row of the slices + 1: who asked for it, 0 where that is not known
 * @property {Column} site row of the places that asked for memory
 * @property {Column} ended rows of the blocks, in the order of their ends
 * @property {number} end ns: of the recording
 */
/**
 * @typedef {object} Levels the bytes in use after every change
 * @property {Float64Array} times ns, ascending, each once
 * @property {Float64Array[]} series bytes, a column for each
 * @property {Float64Array} total bytes
 */
/** @typedef {{key: number, bytes: number, count: number, largest: number}} Group */

/** @param {Data} data @returns {Blocks} */
export function blocksOf(data) {
  const column = (/** @type {string} */ name) => data.column(`memory.${name}`);
  return {
    start: column("start"),
    life: column("life"),
    size: column("size"),
    category: column("category"),
    device: column("device"),
    slice: column("slice"),
    site: column("site"),
    ended: column("ended"),
    end: data.value("memory.end") ?? 0,
  };
}

/**
 * @param {Blocks} blocks
 * @param {number} count of series
 * @param {(block: number) => number} seriesOf which one a block belongs to, -1: to none
 * @returns {Levels}
 */
export function levelsOf(blocks, count, seriesOf) {
  const { start, life, size, ended, end } = blocks;
  const capacity = 2 * start.length + 1;
  const times = new Float64Array(capacity);
  const series = Array.from({ length: count }, () => new Float64Array(capacity));
  const now = new Float64Array(count);
  let rows = 0;
  /** @param {number} time @param {number} place @param {number} change */
  const note = (time, place, change) => {
    now[place] += change;
    // Events at the same time are one change, since states in between lasted no time.
    if (!rows || times[rows - 1] !== time) times[rows++] = time;
    for (let i = 0; i < count; i++) series[i][rows - 1] = now[i];
  };
  let death = 0;
  const bury = (/** @type {number} */ until) => {
    for (; death < ended.length; death++) {
      const block = ended[death];
      const time = start[block] + life[block];
      if (time > until) break;
      const place = seriesOf(block);
      if (place >= 0) note(time, place, -size[block]);
    }
  };
  for (let block = 0; block < start.length; block++) {
    const place = seriesOf(block);
    if (place < 0) continue;
    // A block that ends where this one starts may be the same memory; the order is irrelevant.
    bury(start[block]);
    note(start[block], place, size[block]);
  }
  bury(end);
  const total = new Float64Array(rows);
  for (const column of series) for (let i = 0; i < rows; i++) total[i] += column[i];
  return { times: times.slice(0, rows), series: series.map((column) => column.slice(0, rows)), total };
}

/** The last place at or before a time, -1 before the first. @param {ArrayLike<number>} times @param {number} time */
export function placeAt(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * For each of `width` equal parts of a span the change to draw: that with the most bytes, so that
 * no peak is lost between two pixels; -1 where nothing is in use yet.
 * @param {Levels} levels
 * @param {number} from ns
 * @param {number} to ns
 * @param {number} width
 */
export function highest(levels, from, to, width) {
  const { times, total } = levels;
  const places = new Int32Array(width);
  let at = placeAt(times, from);
  for (let x = 0; x < width; x++) {
    const until = from + ((to - from) * (x + 1)) / width;
    // A change exactly at the edge hides the state before it.
    if (times[at + 1] === from + ((to - from) * x) / width) at++;
    let best = at;
    while (at + 1 < times.length && times[at + 1] < until) {
      at++;
      if (best < 0 || total[at] > total[best]) best = at;
    }
    places[x] = best;
  }
  return places;
}

/** The greatest total in a span. @param {Levels} levels @param {number} from @param {number} to */
export function greatest(levels, from, to) {
  let most = 0;
  for (let at = Math.max(placeAt(levels.times, from), 0); at < levels.times.length && levels.times[at] <= to; at++) {
    most = Math.max(most, levels.total[at]);
  }
  return most;
}

/**
 * The blocks that live at a moment, in the order of their starts.
 * @param {Blocks} blocks
 * @param {number} time ns
 * @param {(block: number) => boolean} wanted
 */
export function liveAt(blocks, time, wanted) {
  const { start, life } = blocks;
  const live = [];
  for (let block = 0; block < start.length && start[block] <= time; block++) {
    if (time < start[block] + life[block] && wanted(block)) live.push(block);
  }
  return live;
}

/**
 * Sums by a key, the most bytes first.
 * @param {Blocks} blocks
 * @param {number[]} rows
 * @param {(block: number) => number} keyOf
 * @returns {Group[]}
 */
export function grouped(blocks, rows, keyOf) {
  /** @type {Map<number, Group>} */
  const groups = new Map();
  for (const block of rows) {
    const key = keyOf(block);
    const size = blocks.size[block];
    const group = groups.get(key);
    if (!group) groups.set(key, { key, bytes: size, count: 1, largest: block });
    else {
      group.bytes += size;
      group.count++;
      if (size > blocks.size[group.largest]) group.largest = block;
    }
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}
