// What the blocks of memory are grouped by: what the recording knows, the most telling first.
import assert from "node:assert/strict";
import { test } from "node:test";

import { groupings } from "stepscope/memory/moment.js";

const nothing = { hasOperators: false, hasModules: false, hasLines: false, hasStacks: false };
const ids = (known) => groupings({ ...nothing, ...known }).map(([id]) => id);

test("a recording of operators begins with them", () => {
  assert.deepEqual(ids({ hasOperators: true, hasLines: true }), ["operator", "line", "category", "block"]);
});

test("a snapshot has lines and no operators", () => {
  assert.deepEqual(ids({ hasLines: true, hasStacks: true }), ["line", "stack", "category", "block"]);
});

test("where nothing is known, the operator is said to be unknown", () => {
  assert.deepEqual(ids({}), ["operator", "category", "block"]);
});
