// The parts of the timeline that need no browser.

import assert from "node:assert/strict";
import test from "node:test";

import { stepBeside } from "stepscope/timeline/axis.js";
import { SHADES, contrast, packed, palette, parsed, shadeOf } from "stepscope/timeline/colours.js";
import { ancestorOfKind, argumentsOf, childrenOf } from "stepscope/timeline/facts.js";
import { Flows } from "stepscope/timeline/flows.js";
import { Hits, distinctNames } from "stepscope/timeline/hits.js";
import { Lanes, search } from "stepscope/timeline/lanes.js";
import { BOX, HEAD, LINE, layout, lineAt, linesWithin } from "stepscope/timeline/layout.js";
import { sums } from "stepscope/timeline/sums.js";
import { tickText } from "stepscope/format.js";
import { View, ticks } from "stepscope/timeline/view.js";

import { KINDS, crowd, dataOf } from "./timeline_data.mjs";

// outer 0-100 with a call 10-30 (which launches work) and inner 40-90; work 50-70 on a device.
const NESTED = [
  { start: 0, end: 100, name: "outer", self: 30, kind: KINDS.MODULE },
  { start: 10, end: 30, name: "launch", lane: 1, up: 1, kind: KINDS.RUNTIME },
  { start: 40, end: 90, name: "inner", lane: 1, up: 2 },
  { start: 50, end: 70, name: "Kernel<1>", track: 1, kind: KINDS.KERNEL },
];
const TIES = { "launches.work": [3], "launches.call": [1], "flows.forward": [1], "flows.backward": [2] };

test("search finds the first that is at least, or above", () => {
  const values = [1, 3, 3, 5];
  assert.deepEqual([0, 1, 3, 4, 6].map((wanted) => search(values, wanted, 0, 4)), [0, 0, 1, 3, 4]);
  assert.equal(search(values, 3, 0, 4, true), 3);
});

test("zooming keeps the moment under the pointer", () => {
  const view = new View(1e6);
  view.width = 800;
  const before = view.timeAt(200);
  view.zoom(3, 200);
  assert.ok(Math.abs(view.timeAt(200) - before) < 1e-6);
  assert.ok(Math.abs(view.pixelAt(before) - 200) < 1e-6);
});

test("a view never leaves the trace, and never becomes shorter than its clock tells", () => {
  const view = new View(1e6);
  view.width = 800;
  for (let i = 0; i < 200; i++) view.pan(500);
  assert.ok(view.from < 1e6);
  for (let i = 0; i < 500; i++) view.pan(-500);
  assert.ok(view.to > 0);
  for (let i = 0; i < 200; i++) view.zoom(2);
  assert.ok(view.span >= 19.99);
  for (let i = 0; i < 200; i++) view.zoom(0.5);
  assert.ok(view.from <= 0 && view.to >= 1e6, `${view.from} to ${view.to}`);
});

test("a trace of one moment has a view", () => {
  const view = new View(0);
  view.width = 100;
  assert.ok(view.span > 0 && Number.isFinite(view.perPixel));
});

test("frames of a pan cut time at the same pixels", () => {
  const view = new View(1e6);
  view.width = 777;
  view.zoom(3.7);
  const first = view.aligned();
  view.pan(13.3);
  const moved = (view.aligned() - first) / view.perPixel;
  assert.ok(Math.abs(moved - Math.round(moved)) < 1e-6);
});

test("ticks are round, few, and all told apart", () => {
  for (const [from, to] of [[0, 10], [0, 999], [5, 123456], [1e9, 1e9 + 400], [-50, 3e12], [7.3e9, 7.30001e9]]) {
    const { moments, step } = ticks(from, to, 8);
    assert.ok(moments.length <= 9, `${moments.length} ticks`);
    assert.ok(moments.every((moment) => moment >= from && moment <= to));
    const texts = moments.map((moment) => tickText(moment, step, to));
    assert.equal(new Set(texts).size, moments.length, texts.join(" "));
  }
  assert.equal(tickText(1500, 500, 2000), "1.5 µs");
  assert.equal(tickText(-0, 5e6, 1e7), "0 ms");
});

test("names in boxes can be read in both themes", () => {
  for (const [text, dark] of /** @type {[string, boolean][]} */ ([["#1b1f24", false], ["#e6e9ed", true]])) {
    const colours = palette(KINDS, parsed(text), dark);
    assert.equal(colours.length, Object.keys(KINDS).length * SHADES);
    for (const colour of colours) assert.ok(contrast(colour, parsed(text)) >= 4.5, `${colour} under ${text}`);
    assert.ok(new Set(colours.map(packed)).size > colours.length * 0.8);
  }
  assert.ok(contrast(parsed("#ffb020"), parsed("#1b1f24")) >= 4.5);
});

test("a name has the same shade everywhere", () => {
  assert.equal(shadeOf("aten::mm"), shadeOf("aten::mm"));
  assert.ok(new Set(["a", "b", "c", "d", "e", "f"].map(shadeOf)).size > 2);
});

test("rows fold", () => {
  const { groups } = new Lanes(dataOf(NESTED));
  const open = layout(groups, new Set());
  assert.equal(open.lines.length, 3);
  assert.equal(layout(groups, new Set(["t0"])).lines.length, 2);
  const closed = layout(groups, new Set(["g0"]));
  assert.deepEqual([closed.lines.length, closed.height], [0, HEAD]);
  assert.equal(lineAt(open, HEAD + LINE + 1)?.lane, groups[0].tracks[0].lanes[1]);
  assert.equal(lineAt(open, 3), null);
  assert.equal(lineAt(open, 1e6), null);
  assert.equal(linesWithin(open, HEAD + LINE, BOX).length, 1);
});

test("search ignores case, counts slices, and goes round", () => {
  const data = dataOf(NESTED);
  const lanes = new Lanes(data);
  const hits = new Hits(lanes, distinctNames(data), "NE");
  assert.equal(hits.count, 2);
  assert.deepEqual([hits.next(-1, 1), hits.next(2, 1), hits.next(3, 1), hits.next(2, -1)], [2, 3, 2, 3]);
  assert.deepEqual([hits.rank(2), hits.rank(3)], [0, 1]);
  assert.equal(new Hits(lanes, distinctNames(data), "nothing").next(0, 1), -1);
});

test("hits in a pixel of many are known", () => {
  const data = dataOf(crowd(3, 2000));
  const lanes = new Lanes(data);
  const hits = new Hits(lanes, distinctNames(data), "op 3");
  let count = 0;
  for (let at = 0; at < lanes.count; at++) {
    assert.equal(hits.before[at], count);
    count += hits.has(lanes.rows[at]) ? 1 : 0;
  }
  assert.ok(count > 0 && hits.count === count);
});

test("an interval's sum cuts slices at its ends", () => {
  const found = sums(dataOf(NESTED), 20, 60);
  const by = Object.fromEntries(found.map((sum) => [sum.kind, sum]));
  assert.deepEqual([by[KINDS.MODULE].count, by[KINDS.MODULE].total, by[KINDS.MODULE].self], [1, 40, 10]);
  assert.deepEqual([by[KINDS.RUNTIME].total, by[KINDS.OPERATOR].total, by[KINDS.KERNEL].total], [10, 20, 10]);
});

test("the sum of everything is what Python found", () => {
  const data = dataOf(NESTED);
  const found = sums(data, 0, 100);
  assert.deepEqual(found.map(({ self }) => self), [50, 30, 20, 20]);
  assert.equal(found.reduce((sum, { count }) => sum + count, 0), 4);
  assert.deepEqual(sums(data, 0, 100, (track) => track === 1).map(({ total }) => total), [20]);
});

test("slices without length count in the interval that holds them", () => {
  const data = dataOf([{ start: 5, end: 5 }, { start: 10, end: 10 }]);
  assert.equal(sums(data, 5, 10)[0].count, 1);
  assert.deepEqual(sums(data, 6, 9), []);
});

test("flows tie calls to work and forward to backward", () => {
  const flows = new Flows(dataOf(NESTED, TIES));
  assert.deepEqual(flows.workOf(0), [3]);
  assert.deepEqual(flows.workOf(2), []);
  assert.equal(flows.launchOf(3), 1);
  assert.equal(flows.launchOf(2), -1);
  assert.deepEqual(flows.backwardOf(1), [2]);
  assert.equal(flows.forwardOf(2), 1);
  assert.deepEqual(flows.of(0, 10), [{ from: 1, to: 3 }]);
  assert.deepEqual(flows.of(1, 10), [{ from: 1, to: 3 }, { from: 1, to: 2 }]);
});

test("children and the module around a slice", () => {
  const data = dataOf(NESTED);
  assert.deepEqual(childrenOf(data, 0), [1, 2]);
  assert.deepEqual(childrenOf(data, 2), []);
  assert.equal(ancestorOfKind(data, 2, KINDS.MODULE), 0);
  assert.equal(ancestorOfKind(data, 3, KINDS.MODULE), -1);
});

test("inputs are one line each", () => {
  const fragment = '"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "1"], "grid": [1, 2, 3]';
  assert.deepEqual(argumentsOf(fragment), { inputs: ["float [2,3]", "Scalar = 1"], others: [["grid", "[1,2,3]"]] });
});

test("a fragment that is no JSON, or of another shape, is shown as it is", () => {
  assert.deepEqual(argumentsOf('"a": nan'), { inputs: [], others: [["Arguments", '"a": nan']] });
  assert.deepEqual(argumentsOf('"Input Dims": 5').inputs, []);
  assert.equal(argumentsOf(`"x": "${"y".repeat(9000)}"`).others[0][1].length, 2001);
  assert.deepEqual(argumentsOf(""), { inputs: [], others: [] });
});

test("steps are bookmarks", () => {
  const steps = [0, 10, 20].map((start, number) => ({ number, start, end: start + 9 }));
  assert.equal(stepBeside(steps, { from: 9, to: 21 }, 1)?.number, 2);
  assert.equal(stepBeside(steps, { from: 9, to: 21 }, -1)?.number, 0);
  assert.equal(stepBeside(steps, { from: 19, to: 31 }, 1), undefined);
  assert.equal(stepBeside(steps, { from: -1, to: 11 }, -1), undefined);
  // Where several are shown, the first or the last of them.
  assert.equal(stepBeside(steps, { from: -1, to: 31 }, 1)?.number, 0);
  assert.equal(stepBeside(steps, { from: -1, to: 31 }, -1)?.number, 2);
});

test("a thread shows as many lines as have anything in sight", () => {
  const lanes = new Lanes(dataOf(NESTED));
  const [thread] = lanes.groups[0].tracks;
  assert.equal(lanes.deepest(thread, 0, 100), 2);
  assert.equal(lanes.deepest(thread, 31, 39), 1); // between the two inner ones
  assert.equal(lanes.deepest(thread, 101, 200), 0);
  const shown = layout(lanes.groups, new Set(), () => 1);
  assert.equal(shown.lines.length, 2); // one of each thread
  assert.equal(shown.lanes.get(thread.track), 1);
});
