// The axes of a roofline without the DOM: what they show, and where a roof lies.

/** @typedef {{intensity: number, rate: number, time: number, dtype: string, row: number}} Point */
/** @typedef {{from: number, to: number}} Range of exponents of 10 */

const ROOM = 0.3; // decades beyond the outermost point

/**
 * What the axes show: all points, and where the memory's roof meets each of the others.
 * @param {Point[]} points
 * @param {number[]} roofs FLOP/s
 * @param {number} memory B/s, 0: not known
 * @returns {{x: Range, y: Range}}
 */
export function rangesOf(points, roofs, memory) {
  const x = points.map(({ intensity }) => Math.log10(intensity));
  const y = points.map(({ rate }) => Math.log10(rate));
  for (const roof of roofs) {
    y.push(Math.log10(roof));
    if (memory) x.push(Math.log10(roof / memory), Math.log10(roof / memory) + 0.7);
  }
  return { x: around(x), y: around(y) };
}

/** @param {number[]} values @returns {Range} */
function around(values) {
  if (!values.length) return { from: 0, to: 1 };
  return { from: Math.min(...values) - ROOM, to: Math.max(...values) + ROOM };
}

/** The whole powers of ten in a range. @param {Range} range */
export function decades({ from, to }) {
  const powers = [];
  for (let power = Math.ceil(from); power <= Math.floor(to); power++) powers.push(power);
  return powers;
}

/**
 * The ends of the memory's roof in a range of intensities: it rises until the highest of the others.
 * @param {Range} x @param {number[]} roofs @param {number} memory
 * @returns {{from: [number, number], to: [number, number]}} intensity and FLOP/s
 */
export function slope(x, roofs, memory) {
  const [low, high] = [10 ** x.from, 10 ** x.to];
  const end = roofs.length ? Math.min(Math.max(...roofs) / memory, high) : high;
  return { from: [low, low * memory], to: [end, end * memory] };
}

/** The radius of a point, whose area shows its time. @param {number} time @param {number} longest */
export function radius(time, longest) {
  return Math.max(3, 18 * Math.sqrt(longest ? time / longest : 0));
}
