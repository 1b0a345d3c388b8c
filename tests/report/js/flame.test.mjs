// Flame graphs: sums, places, moving around and searching.

import assert from "node:assert/strict";
import { test } from "node:test";

import { hasWaiting, ownOf, timesOf } from "stepscope/flame/cells.js";
import { Layout } from "stepscope/flame/layout.js";

import { dataOf } from "./timeline_data.mjs";

// all -> main(1) -> small(3): 10, large(4): 30 -> deep(5): 5;  all -> other(2): 20
const PARENT = [0, 0, 0, 1, 1, 4];
const graph = () =>
  new Layout({
    up: PARENT.map((parent, node) => node - parent),
    text: [0, 1, 2, 3, 4, 3],
    own: [0, 2, 20, 10, 30, 5],
  });

test("a node's total is all that is below it", () => {
  assert.deepEqual([...graph().total], [67, 47, 20, 10, 35, 5]);
});

test("callees stand inside their caller, the largest first, and never overlap", () => {
  const layout = graph();
  assert.deepEqual([...layout.start], [0, 0, 47, 35, 0, 0]);
  assert.equal(layout.deepest, 3);
});

test("a place belongs to the node that is drawn there", () => {
  const layout = graph();
  assert.equal(layout.at(0, 66), 0);
  assert.equal(layout.at(1, 46.9), 1);
  assert.equal(layout.at(1, 47), 2);
  assert.equal(layout.at(2, 34), 4);
  assert.equal(layout.at(2, 35), 3);
  assert.equal(layout.at(2, 46), -1); // main's own time
  assert.equal(layout.at(3, 6), -1);
  assert.equal(layout.at(1, 67), -1);
});

test("arrows go to callers, callees and siblings, and stop at the ends", () => {
  const layout = graph();
  assert.deepEqual(layout.path(5), [5, 4, 1, 0]);
  assert.equal(layout.below(1), 4);
  assert.equal(layout.below(3), -1);
  assert.equal(layout.beside(4, 1), 3);
  assert.equal(layout.beside(3, 1), -1);
  assert.equal(layout.beside(4, -1), -1);
  assert.equal(layout.beside(0, 1), -1);
});

test("a search counts what is inside another hit once", () => {
  const { found, hits, amount } = graph().search((text) => text === 3 || text === 4);
  assert.deepEqual([...found], [0, 0, 0, 1, 1, 1]);
  assert.equal(hits, 3);
  assert.equal(amount, 45);
});

test("nodes without any of the metric are neither drawn nor reached", () => {
  const layout = new Layout({ up: [0, 1, 2], text: [0, 1, 2], own: [0, 7, 0] });
  assert.equal(layout.below(0), 1);
  assert.equal(layout.beside(1, 1), -1);
  assert.equal(layout.search(() => true).hits, 1);
});

test("a deep stack is no deeper than the machine's", () => {
  const count = 20_000;
  const layout = new Layout({
    up: Array.from({ length: count }, (_, node) => (node ? 1 : 0)),
    text: new Uint8Array(count),
    own: Array.from({ length: count }, (_, node) => (node === count - 1 ? 1 : 0)),
  });
  assert.equal(layout.deepest, count - 1);
  assert.equal(layout.at(count - 1, 0.5), count - 1);
});

// Cells: node 1 runs 40 on thread 0, of which 30 in the steps, and waits 50; thread 7 runs 5 in node 2.
const CELLS = {
  "g.up": [0, 1, 1],
  "g.cells.node": [1, 1, 2],
  "g.cells.track": [0, 0, 7],
  "g.cells.waiting": [0, 1, 0],
  "g.cells.cpu_ns": [40, 50, 5],
  "g.cells.cpu_ns.steps": [30, 0, 5],
};
const EVERYTHING = { metric: "cpu_ns", steps: false, waiting: true, tracks: null };

test("the cells that are asked for are summed", () => {
  const data = dataOf([], CELLS);
  const own = (/** @type {object} */ asked) => [...ownOf(data, "g", { ...EVERYTHING, ...asked }).own];
  assert.deepEqual(own({}), [0, 90, 5]);
  assert.deepEqual(own({ waiting: false }), [0, 40, 5]);
  assert.deepEqual(own({ waiting: false, steps: true }), [0, 30, 5]);
  assert.deepEqual(own({ tracks: new Set([7]) }), [0, 0, 5]);
  assert.deepEqual(timesOf(data, "g", "cpu_ns"), ["steps", "run"]);
  assert.deepEqual(timesOf(data, "g", "device_ns"), ["run"]);
  assert.equal(hasWaiting(data, "g"), true);
});

test("a node that mostly waits is told apart", () => {
  const data = dataOf([], CELLS);
  const layout = new Layout({ up: CELLS["g.up"], text: [0, 1, 2], ...ownOf(data, "g", EVERYTHING) });
  assert.deepEqual([0, 1, 2].map((node) => layout.waits(node)), [true, true, false]);
  assert.equal(layout.waited[0], 50);
});
