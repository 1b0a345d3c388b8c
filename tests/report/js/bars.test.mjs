import assert from "node:assert/strict";
import { test } from "node:test";

import { barsFor, ticks } from "stepscope/lib/bars.js";

test("every step has a bar of its own while there is room", () => {
  const { rows, pitch } = barsFor([3, 1, 2], 300, 48);
  assert.deepEqual([...rows], [0, 1, 2]);
  assert.equal(pitch, 48);
});

test("where steps share a bar, it is the highest one: no slow step is hidden", () => {
  const heights = new Float64Array(10_000).fill(1);
  heights[7_777] = 50;
  const { rows, pitch } = barsFor(heights, 200, 48);
  assert.equal(rows.length, 100);
  assert.ok(rows.includes(7_777));
  assert.equal(pitch, 2);
});

test("no steps, no bars", () => {
  assert.equal(barsFor([], 100, 48).rows.length, 0);
});

test("a scale has round numbers and not too many", () => {
  assert.deepEqual(ticks(170, 4), [0, 50, 100, 150]);
  assert.deepEqual(ticks(1, 4), [0, 0.5, 1]);
  assert.deepEqual(ticks(0, 4), [0]);
  for (const highest of [1e-3, 7, 123456789, 9.9e12]) assert.ok(ticks(highest, 4).length <= 5);
});
