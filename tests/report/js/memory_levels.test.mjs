// Levels and moments of memory, on blocks written down by hand.

import assert from "node:assert/strict";
import { test } from "node:test";

import { greatest, grouped, highest, levelsOf, liveAt, placeAt } from "stepscope/memory/levels.js";

/** Blocks of [start, end, size, series], in the order of their starts; end null: to the end. */
function made(rows, end = 1000) {
  const start = rows.map(([from]) => from);
  const ends = rows.map(([, to]) => to ?? end + 1);
  const ended = rows.map((_, i) => i).sort((a, b) => ends[a] - ends[b]);
  return {
    start,
    life: ends.map((to, i) => to - start[i]),
    size: rows.map(([, , size]) => size),
    category: rows.map(([, , , series]) => series),
    device: rows.map(() => 0),
    slice: rows.map(() => 1),
    site: rows.map((_, i) => i),
    ended,
    end,
  };
}

const BLOCKS = made([
  [0, null, 100, 0],
  [10, 30, 50, 1],
  [20, 40, 25, 1],
  [30, 50, 5, 0],
]);
const LEVELS = levelsOf(BLOCKS, 2, (block) => BLOCKS.category[block]);

test("every change is a time, and what happens at once is one change", () => {
  assert.deepEqual([...LEVELS.times], [0, 10, 20, 30, 40, 50]);
  assert.deepEqual([...LEVELS.series[0]], [100, 100, 100, 105, 105, 100]);
  assert.deepEqual([...LEVELS.series[1]], [0, 50, 75, 25, 0, 0]);
  assert.deepEqual([...LEVELS.total], [100, 150, 175, 130, 105, 100]);
});

test("a block that no series takes counts for nothing", () => {
  const levels = levelsOf(BLOCKS, 1, (block) => (BLOCKS.category[block] === 1 ? 0 : -1));
  assert.deepEqual([...levels.times], [10, 20, 30, 40]);
  assert.deepEqual([...levels.total], [50, 75, 25, 0]);
});

test("a block that ends when it starts is never in use", () => {
  const levels = levelsOf(made([[5, 5, 10, 0]]), 1, () => 0);
  assert.deepEqual([...levels.total], [0]);
});

test("memory of nothing is no level", () => {
  const levels = levelsOf(made([]), 1, () => 0);
  assert.equal(levels.times.length, 0);
  assert.equal(greatest(levels, 0, 10), 0);
  assert.deepEqual([...highest(levels, 0, 10, 2)], [-1, -1]);
});

test("what lives at a moment sums to the level then, at all moments", () => {
  let seed = 7;
  const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
  const rows = Array.from({ length: 300 }, () => {
    const start = random(900);
    return [start, random(4) ? start + random(200) : null, 1 + random(1000), random(3)];
  }).sort((a, b) => a[0] - b[0]);
  const blocks = made(rows);
  const levels = levelsOf(blocks, 3, (block) => blocks.category[block]);
  for (let time = 0; time <= 1000; time++) {
    const live = liveAt(blocks, time, () => true);
    const sum = live.reduce((total, block) => total + blocks.size[block], 0);
    assert.equal(levels.total[placeAt(levels.times, time)] ?? 0, sum, `at ${time}`);
  }
});

test("a place is the last at or before a time", () => {
  assert.deepEqual([-1, 0, 9, 10, 50, 99].map((time) => placeAt(LEVELS.times, time)), [-1, 0, 0, 1, 5, 5]);
});

test("a pixel shows the most that was in use in it, also what came from before", () => {
  assert.deepEqual([...highest(LEVELS, 0, 60, 2)], [2, 3]); // 20 ns is in the first half
  assert.deepEqual([...highest(LEVELS, 22, 28, 3)], [2, 2, 2]);
  assert.deepEqual([...highest(LEVELS, 0, 1000, 1)], [2]);
});

test("no peak is lost, however many changes fall into a pixel", () => {
  const rows = Array.from({ length: 1000 }, (_, i) => [i, i + 1, i === 777 ? 5000 : 1, 0]);
  const blocks = made(rows);
  const levels = levelsOf(blocks, 1, () => 0);
  for (const width of [1, 3, 10, 101]) {
    const seen = [...highest(levels, 0, 1000, width)].map((place) => levels.total[place]);
    assert.ok(seen.includes(5000), `in ${width} pixels`);
  }
});

test("the greatest in a span counts what was there at its start", () => {
  assert.equal(greatest(LEVELS, 0, 1000), 175);
  assert.equal(greatest(LEVELS, 35, 39), 130);
});

test("groups sum bytes and blocks, and know the largest", () => {
  assert.deepEqual(grouped(BLOCKS, [0, 1, 2], (block) => BLOCKS.category[block]), [
    { key: 0, bytes: 100, count: 1, largest: 0 },
    { key: 1, bytes: 75, count: 2, largest: 1 },
  ]);
});
