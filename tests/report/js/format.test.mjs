import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, number, percent, scaled, time } from "stepscope/format.js";

test("times have three digits that count, in the unit that fits", () => {
  assert.equal(time(0), "0 ns");
  assert.equal(time(999), "999 ns");
  assert.equal(time(1_000), "1.00 µs");
  assert.equal(time(12_345), "12.3 µs");
  assert.equal(time(123_456_789), "123 ms");
  assert.equal(time(61e9), "61.0 s");
  assert.equal(time(8_318_609_445), "8.32 s");
  assert.equal(time(999_600_000), "1.00 s");
  assert.equal(time(-1_500), "-1.50 µs");
});

test("bytes are counted in powers of 1,024", () => {
  assert.equal(bytes(1023), "1,023 B");
  assert.equal(bytes(1024), "1.00 KiB");
  assert.equal(bytes(160 * 2 ** 20), "160 MiB");
  assert.equal(bytes(2 ** 20 - 1), "1.00 MiB");
  assert.equal(bytes(3.5 * 2 ** 30), "3.50 GiB");
  assert.equal(bytes(-2048), "-2.00 KiB");
});

test("counts, shares and rates", () => {
  assert.equal(number(1234567), "1,234,567");
  assert.equal(percent(1, 3), "33.3%");
  assert.equal(percent(1, 0), "-");
  assert.equal(scaled(989e12, "FLOP/s"), "989 TFLOP/s");
  assert.equal(scaled(12), "12");
});
