// Data as the page has it, made of plain slices.

import { Data } from "stepscope/decode.js";

export const KINDS = { OTHER: 0, OPERATOR: 1, RANGE: 2, STEP: 3, PYTHON: 4, RUNTIME: 5, KERNEL: 6, MEMCPY: 7, MEMSET: 8, SYNC: 9, DEVICE_RANGE: 10, MODULE: 11 };

/**
 * @typedef {{start: number, end: number, name?: string, track?: number, lane?: number, up?: number, self?: number, kind?: number, step?: number}} Slice
 * @param {Slice[]} slices in order of start
 * @param {Record<string, ArrayLike<number>>} [more] columns
 */
export function dataOf(slices, more = {}) {
  const names = [...new Set(["", ...slices.map((slice) => slice.name ?? "op")])];
  const texts = names.map((name) => new TextEncoder().encode(name));
  const offsets = [0];
  for (const text of texts) offsets.push(offsets[offsets.length - 1] + text.length);
  const duration = slices.map((slice) => slice.end - slice.start);
  /** @type {Record<string, ArrayLike<number>>} */
  const columns = {
    "slices.start": slices.map((slice) => slice.start),
    "slices.duration": duration,
    "slices.self": slices.map((slice, i) => duration[i] - (slice.self ?? duration[i])),
    "slices.name": slices.map((slice) => names.indexOf(slice.name ?? "op")),
    "slices.track": slices.map((slice) => slice.track ?? 0),
    "slices.kind": slices.map((slice) => slice.kind ?? 1),
    "slices.flags": slices.map(() => 0),
    "slices.depth": slices.map((slice) => slice.lane ?? 0),
    "slices.up": slices.map((slice) => slice.up ?? 0),
    "slices.step": slices.map((slice) => slice.step ?? 0),
    "strings.offsets": offsets,
    ...more,
  };
  const tracks = Math.max(0, ...slices.map((slice) => slice.track ?? 0)) + 1;
  const groups = Array.from({ length: tracks }, (_, track) => ({
    track,
    name: `thread ${track}`,
    lanes: Math.max(0, ...slices.filter((slice) => (slice.track ?? 0) === track).map((slice) => (slice.lane ?? 0) + 1)),
  }));
  const values = {
    kinds: KINDS,
    tracks: groups.map(() => ({})),
    "timeline.groups": slices.length ? [{ name: "process", tracks: groups }] : [],
  };
  const places = Object.fromEntries(Object.keys(columns).map((name) => [name, { type: "float64", length: 0, offset: 0, codec: "plain" }]));
  const data = new Data({ columns: places, values }, new Uint8Array(0));
  for (const [name, column] of Object.entries(columns)) data.known.set(name, Float64Array.from(column));
  data.known.set("strings.bytes", Uint8Array.from(texts.flatMap((text) => [...text])));
  return data;
}

/** Numbers that look random, the same in every run. @param {number} seed */
export function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/**
 * Slices that do not overlap, on some lanes; many short ones, few long ones, some without length.
 * @param {number} seed
 * @param {number} count
 */
export function crowd(seed, count) {
  const next = random(seed);
  const free = [0, 0, 0];
  const slices = [];
  for (let i = 0; i < count; i++) {
    const lane = Math.floor(next() * free.length);
    const start = free[lane] + Math.floor(next() < 0.3 ? 0 : next() ** 6 * 5000);
    const length = next() < 0.1 ? 0 : Math.floor(next() ** 8 * 20000);
    slices.push({ start, end: start + length, lane, name: `op ${Math.floor(next() * 9)}` });
    free[lane] = start + length;
  }
  return slices.sort((a, b) => a.start - b.start);
}
