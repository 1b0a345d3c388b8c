import assert from "node:assert/strict";
import { test } from "node:test";

import { decades, radius, rangesOf, slope } from "stepscope/roofline/scale.js";

const point = (intensity, rate) => ({ intensity, rate, time: 1, dtype: "float16", row: 0 });

test("the axes hold every point and the place where the roofs meet", () => {
  const { x, y } = rangesOf([point(0.1, 1e9), point(700, 6e14)], [1e15], 1e12);
  assert.ok(x.from < -1 && x.to > 3); // the roofs meet at 1,000 FLOP/B
  assert.ok(y.from < 9 && y.to > 15);
});

test("without a point and without a roof there is still an axis", () => {
  assert.deepEqual(rangesOf([], [], 0), { x: { from: 0, to: 1 }, y: { from: 0, to: 1 } });
});

test("whole powers of ten are named", () => {
  assert.deepEqual(decades({ from: -1.3, to: 2 }), [-1, 0, 1, 2]);
});

test("the memory's roof rises to the highest of the others", () => {
  const { from, to } = slope({ from: 0, to: 4 }, [1e14, 1e15], 1e12);
  assert.deepEqual(from, [1, 1e12]);
  assert.deepEqual(to, [1000, 1e15]);
});

test("the area of a circle is its time", () => {
  assert.ok(Math.abs(radius(4, 16) / radius(16, 16) - 0.5) < 1e-9);
  assert.equal(radius(0, 16), 3);
});
