// What is known of one slice, as lines of text; details.js shows them.

import { bytes, number, scaled } from "stepscope/format.js";
import { search } from "stepscope/timeline/lanes.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {[string, string]} Fact */

const LONGEST = 2000; // characters of one value
const IN_INPUTS = ["Input Dims", "Input type", "Concrete Inputs"];

/** The nearest slice of a kind around a slice, -1 without. @param {Data} data @param {number} row @param {number} kind */
export function ancestorOfKind(data, row, kind) {
  const kinds = data.column("slices.kind");
  for (let at = data.parent(row); at >= 0; at = data.parent(at)) if (kinds[at] === kind) return at;
  return -1;
}

/** The direct children of a slice. @param {Data} data @param {number} row @returns {number[]} */
export function childrenOf(data, row) {
  const start = data.column("slices.start");
  const end = start[row] + data.column("slices.duration")[row];
  const up = data.column("slices.up");
  const children = [];
  const last = search(start, end, row, start.length, true);
  for (let at = row + 1; at < last; at++) if (up[at] && at - up[at] === row) children.push(at);
  return children;
}

/** The arguments of a slice that are numbers. @param {Data} data @param {number} row @returns {Fact[]} */
export function integerFacts(data, row) {
  /** @type {Fact[]} */
  const facts = [];
  for (const key of data.value("timeline.arguments") ?? []) {
    const rows = data.column(`arguments.${key}.rows`);
    const at = search(rows, row, 0, rows.length);
    if (at >= rows.length || rows[at] !== row) continue;
    const value = data.column(`arguments.${key}.values`)[at];
    const isSize = key === "bytes" || key === "shared memory" || key.endsWith("(bytes)");
    facts.push([capital(key), isSize ? bytes(value) : number(value)]);
  }
  return facts;
}

/** Flops and bytes, where the report knows them. @param {Data} data @param {number} row @returns {Fact[]} */
export function costFacts(data, row) {
  /** @type {Fact[]} */
  const facts = [];
  const duration = data.column("slices.duration")[row];
  const flops = sparse(data, "timeline.flops", row);
  if (flops) {
    facts.push(["Operations", `${scaled(flops, "FLOP")}`]);
    if (duration) facts.push(["Speed", `${scaled((flops * 1e9) / duration, "FLOP/s")} (host time)`]);
  }
  const allocated = sparse(data, "timeline.allocated", row);
  if (allocated) facts.push(["Allocated (self)", bytes(allocated)]);
  const freed = sparse(data, "timeline.freed", row);
  if (freed) facts.push(["Freed (self)", bytes(freed)]);
  return facts;
}

/** A value in a sparse column, 0 if the row has none. @param {Data} data @param {string} name @param {number} row */
function sparse(data, name, row) {
  const rows = data.column(`${name}.rows`);
  const at = search(rows, row, 0, rows.length);
  return at < rows.length && rows[at] === row ? data.column(`${name}.values`)[at] : 0;
}

/**
 * The inputs of an operator, one line each, and its other arguments; an invalid fragment is
 * shown unchanged.
 * @param {string} fragment JSON without its braces
 * @returns {{inputs: string[], others: Fact[]}}
 */
export function argumentsOf(fragment) {
  if (!fragment) return { inputs: [], others: [] };
  /** @type {Record<string, unknown>} */
  let pairs;
  try {
    pairs = JSON.parse(`{${fragment}}`);
  } catch {
    return { inputs: [], others: [["Arguments", cut(fragment)]] };
  }
  /** @type {Fact[]} */
  const others = Object.entries(pairs)
    .filter(([key]) => !IN_INPUTS.includes(key))
    .map(([key, value]) => [key, cut(typeof value === "string" ? value : JSON.stringify(value))]);
  return { inputs: inputs(pairs), others };
}

/** @param {Record<string, unknown>} pairs */
function inputs(pairs) {
  const [dims, types, values] = IN_INPUTS.map((key) => {
    const value = pairs[key];
    return Array.isArray(value) ? value : [];
  });
  const count = Math.max(dims.length, types.length, values.length);
  return Array.from({ length: count }, (_, i) => {
    const type = typeof types[i] === "string" ? types[i] : "";
    const shape = Array.isArray(dims[i]) && dims[i].length ? JSON.stringify(dims[i]) : "";
    const value = values[i] === undefined || values[i] === "" ? "" : `= ${values[i]}`;
    return cut([type, shape, value].filter(Boolean).join(" ")) || "–";
  });
}

/** @param {string} text */
function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
