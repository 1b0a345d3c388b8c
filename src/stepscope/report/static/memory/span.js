// The stretch of time that a chart shows, and the places of its ticks.

/** @typedef {{from: number, to: number}} Span ns */

const LEAST = 10; // ns: closer there is nothing to see

/**
 * A span `factor` times as long, in which `at` stays in its place.
 * @param {Span} span
 * @param {number} at
 * @param {number} factor
 * @param {Span} limits
 * @returns {Span}
 */
export function zoomed(span, at, factor, limits) {
  const whole = limits.to - limits.from;
  const length = Math.min(Math.max((span.to - span.from) * factor, Math.min(LEAST, whole)), whole);
  const part = (at - span.from) / (span.to - span.from || 1);
  const from = at - part * length;
  return held({ from, to: from + length }, limits);
}

/** @param {Span} span @param {number} by @param {Span} limits @returns {Span} */
export function panned(span, by, limits) {
  return held({ from: span.from + by, to: span.to + by }, limits);
}

/** The span moved into the limits; its length stays. @param {Span} span @param {Span} limits @returns {Span} */
export function held(span, limits) {
  const length = Math.min(span.to - span.from, limits.to - limits.from);
  const from = Math.min(Math.max(span.from, limits.from), limits.to - length);
  return { from, to: from + length };
}

/** The span moved, if need be, to contain a moment. @param {Span} span @param {number} at @param {Span} limits */
export function showing(span, at, limits) {
  if (at >= span.from && at <= span.to) return span;
  const half = (span.to - span.from) / 2;
  return held({ from: at - half, to: at + half }, limits);
}

/** Round times, about `count` of them. @param {Span} span @param {number} count */
export function timeTicks(span, count) {
  const wanted = (span.to - span.from) / count;
  const ten = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = [1, 2, 5, 10].map((digit) => digit * ten).find((size) => size >= wanted) ?? ten;
  const ticks = [];
  for (let i = Math.ceil(span.from / step); i * step <= span.to; i++) ticks.push(i * step);
  return { step, ticks };
}

/** Round sizes up to one that is at least the most. @param {number} most bytes */
export function byteTicks(most) {
  let step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(most, 1) / 4)));
  if (step > 1 && (most / step) < 3) step /= 2;
  const ticks = [];
  for (let size = 0; size < most + step; size += step) ticks.push(size);
  return ticks;
}
