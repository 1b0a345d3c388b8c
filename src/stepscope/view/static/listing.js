// The list of traces as data: its columns, its order, its filter.

import { bytes, number, percent, time } from "stepscope/format.js";

/**
 * @typedef {object} Figures what figures.py found in a trace
 * @property {number} events
 * @property {number} lost_events
 * @property {number} duration_ns
 * @property {number} steps
 * @property {number | null} median_step_ns
 * @property {number | null} device_busy
 * @property {number | null} peak_bytes
 * @property {string} peak_device
 * @property {string} top_operator
 * @property {number | null} top_share
 */
/**
 * @typedef {object} Row a trace
 * @property {string} name
 * @property {string} link the name as a part of a URL
 * @property {number} written_ms
 * @property {number} bytes
 * @property {boolean} recording a program writes it now
 * @property {Figures | null} figures null while they are not known
 * @property {string} error
 * @property {string[]} notes
 */
/**
 * @typedef {object} Column
 * @property {string} id
 * @property {string} title
 * @property {(row: Row) => string | number | null} value to sort by; null comes last
 * @property {(row: Row) => string} text
 * @property {boolean} [isText] begins with the smallest when it is sorted by
 */
/** @typedef {{sort: string, down: boolean, filter: string}} View */

/**
 * A column of a figure that may be unknown.
 * @param {string} id @param {string} title
 * @param {(figures: Figures) => number | null} value
 * @param {(value: number, figures: Figures) => string} text
 * @returns {Column}
 */
function figure(id, title, value, text) {
  const of = (/** @type {Row} */ row) => (row.figures ? value(row.figures) : null);
  return {
    id,
    title,
    value: of,
    text: (row) => {
      const known = of(row);
      return row.figures && known !== null ? text(known, row.figures) : "";
    },
  };
}

/** @type {Column[]} */
export const COLUMNS = [
  { id: "name", title: "Trace", value: (row) => row.name, text: (row) => row.name, isText: true },
  { id: "written", title: "Written", value: (row) => row.written_ms, text: (row) => moment(row.written_ms) },
  { id: "size", title: "Size", value: (row) => row.bytes, text: (row) => bytes(row.bytes) },
  figure("events", "Events", (f) => f.events, number),
  figure("duration", "Duration", (f) => f.duration_ns, time),
  figure("steps", "Steps", (f) => f.steps || null, number),
  figure("step", "Median step", (f) => f.median_step_ns, time),
  figure("busy", "Device busy", (f) => f.device_busy, (share) => percent(share, 1)),
  figure("peak", "Peak memory", (f) => f.peak_bytes, (peak, f) => `${bytes(peak)} ${f.peak_device}`),
  {
    id: "operator",
    title: "Top operator",
    value: (row) => row.figures?.top_operator || null,
    text: (row) => operator(row.figures),
    isText: true,
  },
];

/** @param {Figures | null} figures */
function operator(figures) {
  if (!figures?.top_operator) return "";
  const share = figures.top_share === null ? "" : ` (${percent(figures.top_share, 1)})`;
  return figures.top_operator + share;
}

/** A time on this machine's clock: 2025-03-01 17:05. @param {number} ms Unix time */
export function moment(ms) {
  const date = new Date(ms);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/**
 * The rows that contain all words of the filter, in order.
 * @param {Row[]} rows the newest first
 * @param {View} view
 */
export function shown(rows, view) {
  const words = view.filter.toLowerCase().split(/\s+/);
  const left = rows.filter((row) => {
    const text = `${row.name} ${row.figures?.top_operator ?? ""} ${row.error}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const column = COLUMNS.find((each) => each.id === view.sort) ?? COLUMNS[1];
  return left.sort((a, b) => compared(column.value(a), column.value(b), view.down));
}

/**
 * @param {string | number | null} a
 * @param {string | number | null} b
 * @param {boolean} down
 */
function compared(a, b, down) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - Number(b);
  return down ? -order : order;
}

/** The view after a click on a column's head. @param {View} view @param {Column} column */
export function sortedBy(view, column) {
  const down = view.sort === column.id ? !view.down : !column.isText;
  return { ...view, sort: column.id, down };
}

/** @param {string} hash of the URL @returns {View} */
export function viewOf(hash) {
  const state = new URLSearchParams(hash.replace(/^#/, ""));
  const column = COLUMNS.find((each) => each.id === state.get("sort"));
  if (!column) return { sort: "written", down: true, filter: state.get("filter") ?? "" };
  return { sort: column.id, down: state.get("order") === "down", filter: state.get("filter") ?? "" };
}

/** @param {View} view */
export function hashOf(view) {
  /** @type {Record<string, string>} */
  const state = {};
  if (view.sort !== "written" || !view.down) {
    state.sort = view.sort;
    state.order = view.down ? "down" : "up";
  }
  if (view.filter) state.filter = view.filter;
  return new URLSearchParams(state).toString();
}
