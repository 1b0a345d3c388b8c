// Numbers as people read them.

const TIMES = /** @type {const} */ ([
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
]);
const BYTES = /** @type {const} */ ([
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
]);

/** Three digits that count. @param {number} value */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** @param {number} ns */
export function time(ns) {
  for (const [size, unit] of TIMES) {
    if (Math.abs(ns) >= size) return `${digits(ns / size)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

/** @param {number} count */
export function bytes(count) {
  for (const [size, unit] of BYTES) {
    if (Math.abs(count) >= size) return `${digits(count / size)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** @param {number} count */
export function number(count) {
  return Math.round(count).toLocaleString("en-US");
}

/** With a prefix: 1.20 M. @param {number} value @param {string} [unit] */
export function scaled(value, unit = "") {
  for (const [size, prefix] of /** @type {const} */ ([[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (Math.abs(value) >= size) return `${digits(value / size)} ${prefix}${unit}`;
  }
  return `${digits(value)} ${unit}`.trim();
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}
