// Numbers as people read them, by the rules of units.py: a report and a terminal say the same.

import { UNITS } from "stepscope/units.js";

/** @typedef {keyof typeof UNITS} UnitName */
/** @typedef {{one: string, scales: [number, string][], is_whole: boolean}} UnitRules the largest scale first */

/** @type {Record<string, UnitRules>} */
const RULES = /** @type {any} */ (UNITS);

/** @param {number} ns */
export function time(ns) {
  return withUnit(ns, RULES.time);
}

/** @param {number} count */
export function bytes(count) {
  return withUnit(count, RULES.bytes);
}

/** The rules of a unit, which are given for one that another package adds. @param {UnitName | UnitRules} unit */
export function rulesOf(unit) {
  return typeof unit === "string" ? RULES[unit] : unit;
}

/** @param {number} count */
export function number(count) {
  return sign(count, 0) + rounded(Math.abs(count), 0);
}

/** With a prefix: 1.20 M. @param {number} value @param {string} [unit] */
export function scaled(value, unit = "") {
  return (withUnit(value, RULES.scaled) + unit).trimEnd();
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
  const [size, unit] = RULES.time.scales.find(([least]) => Math.abs(largest) >= least) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const value = moment / size;
  return `${sign(value, decimals)}${rounded(Math.abs(value), decimals)} ${unit}`;
}

/** Without digits below the second scale, if the unit or the value is whole. @param {number} value @param {UnitRules} rules */
export function withUnit(value, { scales, is_whole }) {
  const amount = Math.abs(value);
  const [size, unit] = scales.find(([least], i) => amount >= least - (scales[i + 1]?.[0] ?? 0) / 2) ?? scales[scales.length - 1];
  const inUnits = amount / size;
  const isWhole = size === 1 && (is_whole || Number.isInteger(value));
  const decimals = isWhole || inUnits >= 99.95 ? 0 : inUnits >= 9.995 ? 1 : 2;
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
