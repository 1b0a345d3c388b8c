// The bars of a chart: as many as fit, each the highest of its steps.

/**
 * @param {ArrayLike<number>} heights one a step
 * @param {number} width px
 * @param {number} widest px of one bar
 * @returns {{rows: Int32Array, pitch: number}} the row that each bar stands for, and px from one to the next
 */
export function barsFor(heights, width, widest) {
  const room = Math.max(1, Math.floor(width / 2)); // a bar of one px and a gap
  const bars = Math.min(heights.length, room);
  const rows = new Int32Array(bars).fill(-1);
  for (let row = 0; row < heights.length; row++) {
    const bar = Math.floor((row * bars) / heights.length);
    if (rows[bar] < 0 || heights[row] > heights[rows[bar]]) rows[bar] = row;
  }
  return { rows, pitch: bars ? Math.min(width / bars, widest) : widest };
}

/** The lines of a scale: round numbers from 0, at most `most` above it. @param {number} highest @param {number} most */
export function ticks(highest, most) {
  if (!(highest > 0)) return [0];
  const raw = highest / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? 10 * power;
  const lines = [];
  for (let i = 0; i * step <= highest * (1 + 1e-9); i++) lines.push(i * step);
  return lines;
}
