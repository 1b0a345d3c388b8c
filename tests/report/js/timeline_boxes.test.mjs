// No box lost: what the timeline draws, against a look at every slice.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { decode } from "stepscope/decode.js";
import { eachBox, placeAt } from "stepscope/timeline/boxes.js";
import { Lanes } from "stepscope/timeline/lanes.js";

import { crowd, dataOf, random } from "./timeline_data.mjs";

/** All lanes of a timeline. @param {Lanes} lanes */
const allLanes = (lanes) => lanes.groups.flatMap((group) => group.tracks.flatMap((track) => track.lanes));

/** @param {Lanes} lanes @param {any} lane @param {number} from @param {number} perPixel @param {number} width */
function boxes(lanes, lane, from, perPixel, width) {
  /** @type {{left: number, right: number, first: number, last: number, wide: boolean}[]} */
  const found = [];
  eachBox(lanes, lane, from, perPixel, width, (left, right, first, last, wide) => found.push({ left, right, first, last, wide }));
  return found;
}

/**
 * Compare one lane with a look at each of its slices.
 * @returns {number} how many wide boxes there are
 * @param {Lanes} lanes @param {any} lane @param {number} from @param {number} perPixel @param {number} width
 */
function checkLane(lanes, lane, from, perPixel, width) {
  const drawn = boxes(lanes, lane, from, perPixel, width);
  let free = 0;
  for (const { left, right, first, last } of drawn) {
    assert.ok(left >= free && right > left && right <= width, "boxes have pixels of their own, in view");
    assert.ok(first < last);
    free = right;
  }
  const wide = new Map(drawn.filter((box) => box.wide).map((box) => [box.first, box]));
  const painted = new Uint8Array(width);
  for (const box of drawn) painted.fill(1, box.left, box.right);
  let expected = 0;
  for (let at = lane.first; at < lane.last; at++) {
    const left = (lanes.start[at] - from) / perPixel;
    const right = (lanes.end[at] - from) / perPixel;
    if (Math.round(right) <= 0 || Math.round(left) >= width) continue;
    if (lanes.end[at] - lanes.start[at] >= perPixel) {
      const box = wide.get(at);
      assert.ok(box, `slice ${at}, ${right - left} pixels wide at ${left}, is drawn`);
      assert.ok(Math.abs(box.left - Math.max(left, 0)) <= 1.5, "where it is");
      assert.ok(Math.abs(box.right - Math.min(right, width)) <= 1.5, "as wide as it is");
      expected += 1;
    } else if (left >= 0.5) {
      assert.ok(painted[Math.min(Math.round(left), width - 1)], `slice ${at} at ${left} has left a trace`);
    }
  }
  assert.equal(wide.size, expected);
  return expected;
}

/** @param {Lanes} lanes @param {number} seed @param {number} views */
function checkViews(lanes, seed, views) {
  const next = random(seed);
  let wide = 0;
  for (let i = 0; i < views; i++) {
    const width = 1 + Math.floor(next() * 900);
    const span = Math.max(lanes.until * next() ** 5, 10);
    const from = next() * lanes.until - span / 2;
    for (const lane of allLanes(lanes)) wide += checkLane(lanes, lane, from, span / width, width);
  }
  return wide;
}

test("every slice a pixel wide is a box, and every other leaves a trace", () => {
  for (let seed = 1; seed <= 12; seed++) {
    assert.ok(checkViews(new Lanes(dataOf(crowd(seed, 3000))), seed, 25) > 100);
  }
});

test("slices of exactly a pixel, side by side, are all drawn", () => {
  for (const perPixel of [1, 3, 7, 1000 / 3]) {
    const slices = Array.from({ length: 500 }, (_, i) => ({ start: Math.round(i * perPixel), end: Math.round((i + 1) * perPixel) }));
    const lanes = new Lanes(dataOf(slices));
    const [lane] = allLanes(lanes);
    for (const from of [0, perPixel / 2, 0.1, -perPixel / 3]) checkLane(lanes, lane, from, perPixel, 700);
  }
});

test("the long slice that starts in a pixel full of short ones is drawn", () => {
  const short = Array.from({ length: 90 }, (_, i) => ({ start: i, end: i + 1 }));
  const lanes = new Lanes(dataOf([...short, { start: 90, end: 5000, name: "long" }, { start: 5000, end: 5001 }]));
  const drawn = boxes(lanes, allLanes(lanes)[0], -50, 100, 60);
  assert.deepEqual(drawn.map(({ left, right, wide }) => [left, right, wide]), [
    [1, 2, false],
    [2, 51, true],
    [51, 52, false],
  ]);
});

test("a slice without length is a pixel", () => {
  const lanes = new Lanes(dataOf([{ start: 40, end: 40 }]));
  assert.deepEqual(boxes(lanes, allLanes(lanes)[0], 0, 1, 100), [{ left: 40, right: 41, first: 0, last: 1, wide: false }]);
});

test("a slice longer than the view fills it", () => {
  const lanes = new Lanes(dataOf([{ start: 0, end: 1e9 }]));
  assert.deepEqual(boxes(lanes, allLanes(lanes)[0], 5e8, 10, 100), [{ left: 0, right: 100, first: 0, last: 1, wide: true }]);
});

test("a trace without slices has no lanes", () => {
  const lanes = new Lanes(dataOf([]));
  assert.deepEqual(lanes.groups, []);
  assert.equal(lanes.until, 0);
});

test("a point finds the slice there, or the nearest", () => {
  const lanes = new Lanes(dataOf([{ start: 10, end: 20 }, { start: 20, end: 20 }, { start: 30, end: 40 }]));
  const [lane] = allLanes(lanes);
  assert.equal(placeAt(lanes, lane, 15, 2), 0);
  assert.equal(placeAt(lanes, lane, 28, 2), 2);
  assert.equal(placeAt(lanes, lane, 25, 2), -1);
  assert.equal(placeAt(lanes, lane, 20, 2), 1);
  assert.equal(placeAt(lanes, lane, 0, 2), -1);
});

// tests/test_report_timeline.py names the reports of real traces.
for (const path of (process.env.STEPSCOPE_REPORTS ?? "").split(":").filter(Boolean)) {
  test(`no box lost in ${path.split("/").at(-1)}`, async () => {
    const page = readFileSync(path, "utf-8");
    const [, packed] = /** @type {string[]} */ (page.match(/<script id="data"[^>]*>([^<]*)</));
    const lanes = new Lanes(await decode(packed));
    for (const lane of allLanes(lanes)) {
      for (let at = lane.first + 1; at < lane.last; at++) assert.ok(lanes.start[at] >= lanes.end[at - 1], "no two overlap");
    }
    assert.equal(lanes.groups.flatMap((group) => group.tracks).flatMap((track) => track.lanes).reduce((sum, { first, last }) => sum + last - first, 0), lanes.count);
    assert.ok(checkViews(lanes, 5, 12) > 0);
    const whole = allLanes(lanes).reduce((sum, lane) => sum + checkLane(lanes, lane, 0, lanes.until / 1000, 1000), 0);
    assert.ok(whole > 0);
  });
}
