// Lines of source: which cost most, and what their text is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Lines, linesWith, textLines } from "stepscope/source/lines.js";

const COLUMNS = {
  file: [0, 0, 1],
  line: [3, 9, 1],
  self: [10, 30, 5],
  total: [10, 40, 60],
  calls: [1, 2, 3],
  "operators.line": [0, 1, 1, 2],
};
const DATA = {
  column: (name) => COLUMNS[name.replace("source.", "")] ?? [],
  value: (name) => ({ "source.files": ["a.py", "b.py"], "source.functions": ["f", "g", "h"] })[name],
};

test("files come by the time of their own lines, also where totals are shown", () => {
  const lines = new Lines(DATA);
  assert.deepEqual(lines.files("self").map((file) => [file.name, file.cost]), [["a.py", 40], ["b.py", 5]]);
  assert.deepEqual(lines.files("total"), lines.files("self"));
});

test("only costs that the trace knows of are offered", () => {
  assert.deepEqual(new Lines(DATA).measures().map(([id]) => id), ["self", "total"]);
});

test("the dearest line comes first", () => {
  const lines = new Lines(DATA);
  const [file] = lines.files("self");
  assert.deepEqual(lines.hottest(file, "self"), [1, 0]);
  assert.equal(lines.rowOf(file, 9), 1);
  assert.equal(lines.rowOf(file, 1), -1); // of the other file
});

test("a line has its own operators", () => {
  const lines = new Lines(DATA);
  assert.deepEqual([0, 1, 2].map((row) => lines.operators(row)), [
    { first: 0, last: 1 },
    { first: 1, last: 3 },
    { first: 3, last: 4 },
  ]);
});

test("a text has the lines that Python counts", () => {
  assert.deepEqual(textLines("a\r\nb\rc\nd\n"), ["a", "b", "c", "d"]);
  assert.deepEqual(textLines("a\fb\u2028c"), ["a\fb\u2028c"]);
  assert.deepEqual(textLines("\n\n"), ["", ""]);
  assert.deepEqual(textLines(""), []);
});

test("a search finds lines in any case", () => {
  assert.deepEqual(linesWith(["Linear", "x", "a.linear()"], "LINEAR"), [1, 3]);
  assert.deepEqual(linesWith(["a"], ""), []);
});
