import assert from "node:assert/strict";
import { test } from "node:test";

import { hashOf, parseHash } from "stepscope/hash.js";

test("what goes into a hash comes out of it", () => {
  for (const state of [{}, { q: "a&b=c#d?e %41 ü漢🙂" }, { from: "1", to: "2e9", "ops.filter": "</script>" }]) {
    assert.deepEqual(parseHash(`#${hashOf("timeline", state)}`), { id: "timeline", state });
  }
});

test("a page alone has no question mark", () => {
  assert.equal(hashOf("overview", {}), "overview");
});

test("whatever is typed into the address is read without an error", () => {
  assert.deepEqual(parseHash(""), { id: "", state: {} });
  assert.deepEqual(parseHash("#"), { id: "", state: {} });
  assert.deepEqual(parseHash("#%E0%A4%A"), { id: "%E0%A4%A", state: {} });
  assert.deepEqual(parseHash("#a?b?c=d"), { id: "a", state: { "b?c": "d" } });
  assert.equal(parseHash("#a?__proto__=x").state.q, undefined);
});
