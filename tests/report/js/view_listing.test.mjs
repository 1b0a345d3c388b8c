// The list of traces: order, filter, and the view in the URL.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  COLUMNS,
  hashOf,
  moment,
  shown,
  sortedBy,
  viewOf,
} from "../../../src/stepscope/view/static/listing.js";

const FIGURES = {
  events: 12345,
  lost_events: 0,
  duration_ns: 2e9,
  steps: 0,
  median_step_ns: null,
  device_busy: 0.5,
  peak_bytes: 2 ** 30,
  peak_device: "cuda:0",
  top_operator: "aten::mm",
  top_share: 0.25,
};
const row = (name, extra = {}) => ({
  name,
  link: encodeURIComponent(name),
  written_ms: 0,
  bytes: 1024,
  figures: null,
  error: "",
  notes: [],
  ...extra,
});
const NEWEST_FIRST = { sort: "written", down: true, filter: "" };
const names = (rows) => rows.map((each) => each.name);
const text = (id, of) => COLUMNS.find((column) => column.id === id).text(of);

test("the newest comes first", () => {
  const rows = [row("old", { written_ms: 1 }), row("new", { written_ms: 2 })];
  assert.deepEqual(names(shown(rows, NEWEST_FIRST)), ["new", "old"]);
});

test("numbers in names are numbers", () => {
  const view = { ...NEWEST_FIRST, sort: "name", down: false };
  assert.deepEqual(names(shown([row("run10"), row("run9")], view)), ["run9", "run10"]);
});

test("what is unknown comes last, up and down", () => {
  const rows = [row("?"), row("little", { figures: { ...FIGURES, events: 1 } }), row("much", { figures: FIGURES })];
  const view = { ...NEWEST_FIRST, sort: "events" };
  assert.deepEqual(names(shown(rows, view)), ["much", "little", "?"]);
  assert.deepEqual(names(shown(rows, { ...view, down: false })), ["little", "much", "?"]);
});

test("all words of the filter must be in the name, the operator or the error", () => {
  const rows = [row("a/Train.json", { figures: FIGURES }), row("b.json", { error: "is empty" })];
  const left = (filter) => names(shown(rows, { ...NEWEST_FIRST, filter }));
  assert.deepEqual(left(""), ["a/Train.json", "b.json"]);
  assert.deepEqual(left("train MM"), ["a/Train.json"]);
  assert.deepEqual(left("empty"), ["b.json"]);
  assert.deepEqual(left("train empty"), []);
});

test("a second click on a head turns the order round", () => {
  const size = COLUMNS.find((column) => column.id === "size");
  const name = COLUMNS.find((column) => column.id === "name");
  const once = sortedBy(NEWEST_FIRST, size);
  assert.deepEqual([once.sort, once.down], ["size", true]);
  assert.equal(sortedBy(once, size).down, false);
  assert.equal(sortedBy(once, name).down, false);
});

test("the view survives in the hash", () => {
  for (const view of [
    NEWEST_FIRST,
    { sort: "written", down: false, filter: "" },
    { sort: "name", down: true, filter: "a b&c=#%" },
  ]) {
    assert.deepEqual(viewOf(`#${hashOf(view)}`), view);
  }
  assert.equal(hashOf(NEWEST_FIRST), "");
  assert.deepEqual(viewOf("#sort=nonsense"), NEWEST_FIRST);
});

test("figures are told with their units, and unknown ones not at all", () => {
  const known = row("a", { figures: FIGURES });
  assert.equal(text("events", known), "12,345");
  assert.equal(text("duration", known), "2.00 s");
  assert.equal(text("steps", known), "");
  assert.equal(text("step", known), "");
  assert.equal(text("busy", known), "50.0%");
  assert.equal(text("peak", known), "1.00 GiB cuda:0");
  assert.equal(text("operator", known), "aten::mm (25.0%)");
  for (const id of ["events", "duration", "busy", "peak", "operator"]) assert.equal(text(id, row("a")), "");
});

test("times are this machine's", () => {
  assert.equal(moment(new Date(2025, 2, 1, 17, 5, 9).getTime()), "2025-03-01 17:05");
});
