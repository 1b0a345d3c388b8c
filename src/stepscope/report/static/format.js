// Numbers as people read them: the rules of units.py, so that a report and a terminal say the same.

/** @typedef {readonly (readonly [number, string])[]} Units the largest first */

/** @type {Units} */
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
/** @type {Units} */
const SIZES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
/** @type {Units} */
const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** @param {number} ns */
export function time(ns) {
  return withUnit(ns, TIMES, true);
}

/** @param {number} count */
export function bytes(count) {
  return withUnit(count, SIZES, true);
}

/** @param {number} count */
export function number(count) {
  return sign(count, 0) + rounded(Math.abs(count), 0);
}

/** With a prefix: 1.20 M. @param {number} value @param {string} [unit] */
export function scaled(value, unit = "") {
  return (withUnit(value, PREFIXES, Number.isInteger(value)) + unit).trimEnd();
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  return whole ? `${sign(part / whole, 3)}${rounded(Math.abs((100 * part) / whole), 1)}%` : "-";
}

/**
 * A moment with the digits that tell it from its neighbours.
 * @param {number} moment ns
 * @param {number} step ns between two
 * @param {number} [largest] ns: the unit is that of the largest moment shown
 */
export function tickText(moment, step, largest = moment) {
  const [size, unit] = TIMES.find(([each]) => Math.abs(largest) >= each) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const value = moment / size;
  return `${sign(value, decimals)}${rounded(Math.abs(value), decimals)} ${unit}`;
}

/** @param {number} value @param {Units} units @param {boolean} whole without digits below the second unit */
function withUnit(value, units, whole) {
  const amount = Math.abs(value);
  const [size, unit] = units.find(([each], i) => amount >= each - (units[i + 1]?.[0] ?? 0) / 2) ?? units[units.length - 1];
  const inUnits = amount / size;
  const decimals = (whole && size === 1) || inUnits >= 99.95 ? 0 : inUnits >= 9.995 ? 1 : 2;
  return `${sign(value / size, decimals)}${rounded(inUnits, decimals)} ${unit}`;
}

/** Half is rounded up, as units.py does it. @param {number} value @param {number} decimals */
function rounded(value, decimals) {
  const text = (Math.round(value * 10 ** decimals) / 10 ** decimals).toFixed(decimals);
  return value < 999 ? text : text.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
}

/** @param {number} value @param {number} decimals */
function sign(value, decimals) {
  return value * 10 ** decimals <= -0.5 ? "-" : "";
}

/** @param {number} times @param {string} noun */
export function count(times, noun) {
  return `${number(times)} ${noun}${times === 1 ? "" : "s"}`;
}
