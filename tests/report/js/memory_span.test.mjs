// Zoom, pan and ticks of a chart over time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { tickText } from "stepscope/format.js";
import { byteTicks, held, panned, showing, timeTicks, zoomed } from "stepscope/memory/span.js";

const ALL = { from: 0, to: 1000 };

test("zooming keeps the point under the pointer", () => {
  const span = zoomed(ALL, 250, 0.5, ALL);
  assert.deepEqual(span, { from: 125, to: 625 });
  assert.equal((250 - span.from) / (span.to - span.from), 0.25);
});

test("no zoom leaves the limits, nor comes closer than there is anything to see", () => {
  assert.deepEqual(zoomed({ from: 100, to: 200 }, 150, 100, ALL), ALL);
  const close = zoomed(ALL, 500, 1e-9, ALL);
  assert.equal(close.to - close.from, 10);
  assert.deepEqual(zoomed({ from: 0, to: 1 }, 0, 0.5, { from: 0, to: 1 }), { from: 0, to: 1 });
});

test("panning stops at the limits and keeps the length", () => {
  assert.deepEqual(panned({ from: 100, to: 200 }, -500, ALL), { from: 0, to: 100 });
  assert.deepEqual(panned({ from: 100, to: 200 }, 5000, ALL), { from: 900, to: 1000 });
  assert.deepEqual(held({ from: -50, to: 5000 }, ALL), ALL);
});

test("a moment out of sight is brought to the middle", () => {
  assert.deepEqual(showing({ from: 0, to: 100 }, 500, ALL), { from: 450, to: 550 });
  const span = { from: 0, to: 100 };
  assert.equal(showing(span, 100, ALL), span);
});

test("time ticks are round and lie in the span", () => {
  assert.deepEqual(timeTicks({ from: 130, to: 960 }, 4), { step: 500, ticks: [500] });
  assert.deepEqual(timeTicks(ALL, 5).ticks, [0, 200, 400, 600, 800, 1000]);
});

test("a tick has the digits that tell it from the next", () => {
  assert.equal(tickText(1_500_000_000, 500_000_000, 2e9), "1.5 s");
  assert.equal(tickText(1_500_001_000, 1000, 2e9), "1.500001 s");
  assert.equal(tickText(40, 10, 100), "40 ns");
});

test("byte ticks are powers of two apart and hold the most", () => {
  assert.deepEqual(byteTicks(48 << 20).map((size) => size >> 20), [0, 16, 32, 48]);
  for (const most of [0, 1, 3, 1000, 1025, 2 ** 30 + 1]) {
    const ticks = byteTicks(most);
    assert.ok(ticks.at(-1) >= most && ticks.length <= 6, String(ticks));
  }
});
