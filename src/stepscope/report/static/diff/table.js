// A table of a comparison: before, after, difference; a click on a heading sorts.

import { h } from "stepscope/dom.js";
import { percent, time } from "stepscope/format.js";

/** @typedef {[string, number, number, string]} Row what, before, after, note */

const FIRST = 50; // rows that are shown at once

/** @type {[string, (row: Row) => number | string][]} */
const COLUMNS = [
  ["", (row) => row[0]],
  ["before", (row) => -row[1]],
  ["after", (row) => -row[2]],
  ["difference", (row) => -Math.abs(row[2] - row[1])],
];

/**
 * @param {Row[]} rows the largest change first
 * @param {number} whole ns: what shares are of
 * @param {string} unit
 */
export function diffTable(rows, whole, unit) {
  const most = Math.max(...rows.map((row) => Math.abs(row[2] - row[1])), 1);
  const body = h("tbody");
  const more = h("button", { onclick: () => show(sorted, rows.length) }, `Show all ${rows.length} rows`);
  let sorted = rows;
  /** @param {Row[]} shown @param {number} limit */
  const show = (shown, limit) => {
    sorted = shown;
    body.replaceChildren(...shown.slice(0, limit).map((row) => line(row, whole, most)));
    more.hidden = limit >= shown.length;
  };
  const heads = COLUMNS.map(([name, key], i) => {
    const sort = () => show([...rows].sort((a, b) => compared(key(a), key(b))), FIRST);
    return h("th", { class: i ? "right" : "" }, h("button", { class: "diff-head", onclick: i === 3 ? () => show(rows, FIRST) : sort }, name || "what"));
  });
  heads.push(h("th", { class: "right" }, `of a ${unit}`), h("th", null, ""));
  const sums = [0, 0];
  for (const row of rows) {
    sums[0] += row[1];
    sums[1] += row[2];
  }
  const foot = h("tfoot", null, line(["all", sums[0], sums[1], ""], whole, most));
  show(rows, FIRST);
  return h("div", { class: "table diff-table" }, h("div", { class: "table-scroll" }, h("table", null, h("thead", null, h("tr", null, ...heads)), body, foot)), more);
}

/** @param {Row} row @param {number} whole @param {number} most */
function line([what, before, after, note], whole, most) {
  const more = after - before;
  const width = Math.min((100 * Math.abs(more)) / most, 100);
  const bar = h("span", { class: `diff-bar ${more > 0 ? "diff-more" : "diff-less"}` });
  bar.style.width = `${width.toFixed(1)}%`;
  return h(
    "tr",
    null,
    h("td", { title: what }, what),
    h("td", { class: "right" }, time(before)),
    h("td", { class: "right" }, time(after)),
    h("td", { class: "right diff-change" }, bar, h("span", null, signed(more))),
    h("td", { class: "right" }, `${more > 0 ? "+" : ""}${percent(more, whole)}`),
    h("td", { class: "quiet", title: note }, note),
  );
}

/** @param {number} ns */
export function signed(ns) {
  return ns > 0 ? `+${time(ns)}` : ns < 0 ? `-${time(-ns)}` : "±0 ns";
}

/** @param {number | string} a @param {number | string} b */
function compared(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
