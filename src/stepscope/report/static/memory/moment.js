// Memory in use at one moment, as rows of a table: single blocks, or sums by allocation site.

import { grouped } from "stepscope/memory/levels.js";

/** @typedef {import("./levels.js").Blocks} Blocks */
/** @typedef {import("./sites.js").Sites} Sites */
/** @typedef {import("../lib/rows.js").Column} Column */
/** @typedef {import("../lib/rows.js").Rows} Rows */
/** @typedef {{columns: Column[], rows: Rows, blockOf: (row: number) => number, unit: string}} Moment */

/** @typedef {"operator" | "module" | "line" | "stack" | "category" | "block"} Grouping */

/** The groupings that the trace has data for, and their titles. @param {Sites} sites @returns {[Grouping, string][]} */
export function groupings(sites) {
  /** @type {[Grouping, string, boolean][]} */
  const all = [
    ["operator", "Operator", sites.hasOperators || !(sites.hasLines || sites.hasStacks)], // a snapshot has none
    ["module", "Module", sites.hasModules],
    ["line", "Source line", sites.hasLines],
    ["stack", "Stack", sites.hasStacks],
    ["category", "Category", true],
    ["block", "Single allocations", true],
  ];
  return all.filter(([, , known]) => known).map(([id, title]) => [id, title]);
}

/**
 * @param {Grouping} grouping
 * @param {Blocks} blocks
 * @param {number[]} live
 * @param {Sites} sites
 * @param {string[]} categories their names
 * @returns {Moment}
 */
export function momentOf(grouping, blocks, live, sites, categories) {
  if (grouping === "block") return single(blocks, live, sites, categories);
  const { site, category } = blocks;
  const nameOf = {
    operator: (/** @type {number} */ at) => sites.operatorText(at),
    module: (/** @type {number} */ at) => sites.moduleText(at),
    line: (/** @type {number} */ at) => sites.lineText(at),
    stack: (/** @type {number} */ at) => sites.stackText(at),
    category: () => "",
  }[grouping];
  const keys = grouping === "category" ? null : sites[grouping];
  const groups = grouped(blocks, live, keys ? (block) => keys[site[block]] : (block) => category[block]);
  const name = keys
    ? (/** @type {number} */ row) => nameOf(site[groups[row].largest])
    : (/** @type {number} */ row) => wordsOf(categories[groups[row].key]);
  /** @type {Rows} */
  const rows = {
    length: groups.length,
    value: (key, row) => {
      if (key === "name") return name(row);
      if (key === "largest") return blocks.size[groups[row].largest];
      return key === "count" ? groups[row].count : groups[row].bytes;
    },
  };
  const title = grouping === "line" ? "Line" : grouping[0].toUpperCase() + grouping.slice(1);
  /** @type {Column[]} */
  const columns = [
    { key: "name", title, unit: "text" },
    { key: "bytes", title: "Live bytes", unit: "bytes", bar: true },
    { key: "count", title: "Allocations", unit: "number" },
    { key: "largest", title: "Largest", unit: "bytes" },
  ];
  return { columns, rows, blockOf: (row) => groups[row].largest, unit: grouping === "category" ? "categories" : `${grouping}s` };
}

/** @param {Blocks} blocks @param {number[]} live @param {Sites} sites @param {string[]} categories @returns {Moment} */
function single(blocks, live, sites, categories) {
  const { start, life, size, site, category, end } = blocks;
  /** @type {Record<string, (block: number) => number | string>} */
  const values = {
    name: (block) => sites.operatorText(site[block]),
    module: (block) => sites.moduleText(site[block]),
    line: (block) => sites.lineText(site[block]),
    category: (block) => wordsOf(categories[category[block]]),
    bytes: (block) => size[block],
    start: (block) => (wasThere(blocks, block) ? NaN : start[block]),
    life: (block) => (start[block] + life[block] > end ? NaN : life[block]),
  };
  /** @type {Rows} */
  const rows = { length: live.length, value: (key, row) => values[key](live[row]) };
  /** @type {(Column | false)[]} */
  const columns = [
    { key: "name", title: "Operator", unit: "text" },
    sites.hasModules && { key: "module", title: "Module", unit: "text" },
    sites.hasLines && { key: "line", title: "Line", unit: "text" },
    { key: "category", title: "Category", unit: "text" },
    { key: "bytes", title: "Bytes", unit: "bytes", bar: true },
    { key: "start", title: "Allocated at", unit: "time", hint: "– : before the recording" },
    { key: "life", title: "Lives for", unit: "time", hint: "– : to the end of the recording" },
  ];
  return {
    columns: /** @type {Column[]} */ (columns.filter(Boolean)),
    rows,
    blockOf: (row) => live[row],
    unit: "allocations",
  };
}

/** Whether a block was there before the recording. @param {Blocks} blocks @param {number} block */
export function wasThere(blocks, block) {
  return blocks.start[block] === 0 && blocks.slice[block] === 0;
}

/** @param {string} category */
export function wordsOf(category) {
  return category.replaceAll("_", " ");
}
