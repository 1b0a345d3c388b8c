// Rows of a table without the DOM: sorting, filtering, trees and CSV.

import { rulesOf } from "stepscope/format.js";

/** @typedef {import("../format.js").UnitName | import("../format.js").UnitRules} Unit */
/**
 * @typedef {object} Column what a column shows; its values are numbers, texts for the unit "text"
 * @property {string} key
 * @property {string} title
 * @property {Unit} unit ns for "time", a fraction of 1 for "percent"
 * @property {"left" | "right"} [align] by default texts left, numbers right
 * @property {number | boolean} [bar] draw the share of this whole; true: of the column's sum
 * @property {string} [separator] what stands between the lines of a text in the table
 * @property {string} [hint] what the heading means, in a sentence
 */
/**
 * @typedef {object} Rows numbers that are not known are NaN
 * @property {number} length
 * @property {(key: string, row: number) => number | string} value
 * @property {ArrayLike<number>} [depth] of a tree whose rows come parents first
 */

const collator = new Intl.Collator("en", { numeric: true });

/**
 * A comparison of rows: unknown numbers come last in either direction, and equal rows keep their order.
 * @param {Rows} rows
 * @param {string} key
 * @param {boolean} descending
 * @returns {(a: number, b: number) => number}
 */
export function comparing(rows, key, descending) {
  const sign = descending ? -1 : 1;
  // A sort compares each value many times; looking it up once is enough.
  const values = Array.from({ length: rows.length }, (_, row) => rows.value(key, row));
  return (a, b) => {
    const [x, y] = [values[a], values[b]];
    if (typeof x === "string" || typeof y === "string") {
      return sign * collator.compare(String(x), String(y)) || a - b;
    }
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return sign * (x - y) || a - b;
  };
}

/**
 * Whether each row holds all words of the query, in any of its texts and in any case.
 * @param {Rows} rows
 * @param {string} query
 * @param {string[]} keys of the columns that are searched
 * @returns {(row: number) => boolean}
 */
export function matching(rows, query, keys) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return () => true;
  return (row) => {
    const text = keys.map((key) => rows.value(key, row)).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

/**
 * The parent of each row of a tree, -1 at the top.
 * @param {ArrayLike<number>} depth
 */
export function parentsOf(depth) {
  const parents = new Int32Array(depth.length);
  /** @type {number[]} */
  const around = [];
  for (let row = 0; row < depth.length; row++) {
    while (around.length && depth[around[around.length - 1]] >= depth[row]) around.pop();
    parents[row] = around.length ? around[around.length - 1] : -1;
    around.push(row);
  }
  return parents;
}

/**
 * The visible rows of a tree: wanted rows with their ancestors, siblings in order.
 * @param {Int32Array} parents
 * @param {(a: number, b: number) => number} compare
 * @param {(row: number) => boolean} wanted
 * @param {(row: number) => boolean} open whether a row's children are shown
 * @returns {{shown: number[], children: Map<number, number[]>}}
 */
export function flattened(parents, compare, wanted, open) {
  const isShown = new Uint8Array(parents.length);
  for (let row = parents.length - 1; row >= 0; row--) {
    if (wanted(row)) isShown[row] = 1;
    if (isShown[row] && parents[row] >= 0) isShown[parents[row]] = 1;
  }
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (let row = 0; row < parents.length; row++) {
    if (!isShown[row]) continue;
    const siblings = children.get(parents[row]);
    if (siblings) siblings.push(row);
    else children.set(parents[row], [row]);
  }
  const shown = [];
  const waiting = (children.get(-1) ?? []).sort(compare).reverse();
  while (waiting.length) {
    const row = /** @type {number} */ (waiting.pop());
    shown.push(row);
    if (open(row)) waiting.push(...(children.get(row) ?? []).sort(compare).reverse());
  }
  return { shown, children };
}

/** The sum of the known positive values. @param {Rows} rows @param {string} key */
export function totalOf(rows, key) {
  let total = 0;
  for (let row = 0; row < rows.length; row++) total += Math.max(Number(rows.value(key, row)) || 0, 0);
  return total;
}

/**
 * Rows as comma-separated values, numbers in the units of their headings.
 * @param {Column[]} columns
 * @param {Rows} rows
 * @param {Iterable<number>} order
 */
export function csv(columns, rows, order) {
  const lines = [columns.map(({ title, unit }) => quoted(heading(title, rulesOf(unit).one))).join(",")];
  for (const row of order) {
    lines.push(columns.map(({ key }) => cell(rows.value(key, row))).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

/** @param {string} title @param {string} one of the unit */
const heading = (title, one) => (one ? `${title} (${one})` : title);

/** @param {number | string} value */
function cell(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  // A spreadsheet runs a text that starts like a formula; an apostrophe keeps it a text.
  return quoted(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value);
}

/** @param {string} text */
function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The column and direction in a text such as "-self_ns". @param {string} text @param {Column[]} columns */
export function sortOf(text, columns) {
  const descending = text.startsWith("-");
  const key = descending ? text.slice(1) : text;
  return columns.some((column) => column.key === key) ? { key, descending } : null;
}
