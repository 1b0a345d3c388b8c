// Rows of tables: sorted, filtered, as trees, and copied.

import assert from "node:assert/strict";
import { test } from "node:test";

import { comparing, csv, flattened, matching, parentsOf, sortOf, totalOf } from "stepscope/lib/rows.js";

/** @param {Record<string, (string | number)[]>} columns @param {number[]} [depth] */
function rowsOf(columns, depth) {
  return {
    length: Object.values(columns)[0].length,
    value: (/** @type {string} */ key, /** @type {number} */ row) => columns[key][row],
    depth,
  };
}

/** @param {ReturnType<typeof rowsOf>} rows @param {string} key @param {boolean} descending */
function ordered(rows, key, descending) {
  return Array.from({ length: rows.length }, (_, i) => i).sort(comparing(rows, key, descending));
}

test("numbers sort by size, and unknown ones come last either way", () => {
  const rows = rowsOf({ ns: [5, NaN, -1, 30] });
  assert.deepEqual(ordered(rows, "ns", true), [3, 0, 2, 1]);
  assert.deepEqual(ordered(rows, "ns", false), [2, 0, 3, 1]);
});

test("texts sort as people count, and equal rows keep their order", () => {
  const rows = rowsOf({ name: ["layer10", "layer9", "layer10", "a"] });
  assert.deepEqual(ordered(rows, "name", false), [3, 1, 0, 2]);
  assert.deepEqual(ordered(rows, "name", true), [0, 2, 1, 3]);
});

test("a filter wants all words, in any text and any case", () => {
  const rows = rowsOf({ name: ["aten::CONV2d", "aten::mm", "conv"], shape: ["[[2, 3]]", "[[2, 3]]", ""] });
  const found = (/** @type {string} */ query) =>
    [0, 1, 2].filter(matching(rows, query, ["name", "shape"]));
  assert.deepEqual(found("  "), [0, 1, 2]);
  assert.deepEqual(found("conv"), [0, 2]);
  assert.deepEqual(found("3]] conv"), [0]);
  assert.deepEqual(found(".*"), []); // a text, not a pattern
});

test("a tree's parents follow from the depths", () => {
  assert.deepEqual([...parentsOf([0, 1, 2, 2, 1, 0, 2])], [-1, 0, 1, 1, 0, -1, 5]);
});

test("a tree sorts siblings, and hides what is in closed rows", () => {
  const rows = rowsOf({ ns: [10, 1, 9, 5, 20] }, [0, 1, 1, 2, 0]);
  const parents = parentsOf(/** @type {number[]} */ (rows.depth));
  const compare = comparing(rows, "ns", true);
  assert.deepEqual(flattened(parents, compare, () => true, () => true).shown, [4, 0, 2, 3, 1]);
  assert.deepEqual(flattened(parents, compare, () => true, (row) => row === 0).shown, [4, 0, 2, 1]);
});

test("a filtered tree keeps all above what it found", () => {
  const parents = parentsOf([0, 1, 2, 1, 0]);
  const found = flattened(parents, (a, b) => a - b, (row) => row === 2, () => true);
  assert.deepEqual(found.shown, [0, 1, 2]);
});

test("a total leaves out what is unknown or given back", () => {
  assert.equal(totalOf(rowsOf({ bytes: [3, NaN, -5, 4] }), "bytes"), 7);
});

test("CSV quotes hostile texts and defuses formulas", () => {
  const columns = /** @type {import("stepscope/lib/rows.js").Column[]} */ ([
    { key: "name", title: "Name", unit: "text" },
    { key: "ns", title: "Self", unit: "time" },
  ]);
  const rows = rowsOf({ name: ['a "b",\nc', "=cmd()", "é</script>"], ns: [-1, NaN, 2.5] });
  assert.equal(csv(columns, rows, [2, 0, 1]), `Name,Self (ns)\r\né</script>,2.5\r\n"a ""b"",\nc",-1\r\n'=cmd(),\r\n`);
});

test("a sort that the URL asks for must name a column", () => {
  const columns = /** @type {import("stepscope/lib/rows.js").Column[]} */ ([{ key: "ns", title: "", unit: "time" }]);
  assert.deepEqual(sortOf("-ns", columns), { key: "ns", descending: true });
  assert.deepEqual(sortOf("ns", columns), { key: "ns", descending: false });
  assert.equal(sortOf("__proto__", columns), null);
});

test("ten thousand rows come out in order", () => {
  const rows = rowsOf({ ns: Array.from({ length: 10_000 }, (_, i) => (i * 7919) % 10_007) });
  const order = ordered(rows, "ns", true);
  assert.equal(order.length, 10_000);
  for (let i = 1; i < order.length; i++) assert.ok(rows.value("ns", order[i - 1]) >= rows.value("ns", order[i]));
});
