import assert from "node:assert/strict";
import { test } from "node:test";

import { counterAt, counterText, valueAt } from "stepscope/timeline/counters.js";
import { HEAD, layout } from "stepscope/timeline/layout.js";

const counter = { number: 0, name: "power", unit: "W", group: "GPU 0", time: [100, 200, 300], values: [50, 400, 60], most: 400 };
const groups = [
  { name: "GPU 0", folded: false, tracks: [] },
  { name: "process 1", folded: false, tracks: [] },
];

test("a counter says what it said last", () => {
  assert.equal(valueAt(counter, 99), null);
  assert.equal(valueAt(counter, 100), 50);
  assert.equal(valueAt(counter, 299), 400);
  assert.equal(valueAt(counter, 1e9), 60);
  assert.equal(counterText(counter, 250), "power — 400 W");
  assert.equal(counterText(counter, 0), "");
});

test("counters stand under their device, and fold with it", () => {
  const open = layout(groups, new Set(), undefined, [counter]);
  const heads = open.heads.map(({ group, counter: each }) => group?.name ?? each?.name);
  assert.deepEqual(heads, ["GPU 0", "power", "process 1"]);
  assert.equal(counterAt(open, HEAD + 1), counter);
  assert.equal(counterAt(open, 1), null);
  const closed = layout(groups, new Set(["g0"]), undefined, [counter]);
  assert.equal(closed.heads.length, 2);
});
