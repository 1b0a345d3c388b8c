// Kernels, and the rest of what devices did: copies, communication, queues and idling.

import { h } from "stepscope/dom.js";
import { showGrouped } from "stepscope/grouped.js";
import { columnsOf, hasRows, rowsOf } from "stepscope/lib/columns.js";
import { Table } from "stepscope/table.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../lib/rows.js").Column} Column */

/** @type {import("../app.js").Page} */
export const page = {
  id: "kernels",
  title: "Kernels",
  available: (data) => ["kernels.name", "copies", "power", "hardware"].some((table) => hasRows(data, table)),
  missing: {
    shows: "the kernels, copies and communication of devices, who launched them, and why devices were idle",
    why: "No device did any work in this recording.",
  },
  show(root, data, state, app) {
    const hasWork = hasRows(data, "kernels.name") || hasRows(data, "copies");
    const leave = hasWork && showGrouped(root, data, state, app, {
      table: "kernels",
      unit: "kernels",
      columns: () => columns(data),
      sort: "-total_ns",
      amount: "total_ns",
    });
    root.append(h("div", { class: "small-tables" }, ...SMALL.map((small) => smallTable(data, small))));
    return leave || undefined;
  },
};

/** @param {Data} data @returns {Column[]} */
function columns(data) {
  return [
    { key: "name", title: "Name", unit: "text" },
    { key: "count", title: "Calls", unit: "number" },
    { key: "total_ns", title: "Total", unit: "time", bar: data.value("kernels.total_ns") },
    { key: "busy_share", title: "Of busy time", unit: "percent", hint: "Of the time in which any device was busy; overlapping kernels count twice" },
    { key: "mean_ns", title: "Mean", unit: "time" },
    { key: "min_ns", title: "Shortest", unit: "time" },
    { key: "max_ns", title: "Longest", unit: "time" },
    { key: "kind", title: "Kind", unit: "text" },
    { key: "tensor_cores", title: "Tensor cores", unit: "text", hint: "Inferred from the kernel's name" },
    { key: "operator", title: "Launched by", unit: "text", hint: "The operator that launched most of its time" },
    { key: "operators", title: "Operators", unit: "number", hint: "How many different operators launched it" },
    { key: "grid", title: "Grid", unit: "text", hint: "Of the longest run" },
    { key: "block", title: "Block", unit: "text", hint: "Of the longest run" },
    { key: "registers", title: "Registers", unit: "number", hint: "Per thread, in the longest run" },
    { key: "shared_memory_bytes", title: "Shared memory", unit: "bytes", hint: "Per block, in the longest run" },
    { key: "occupancy_percent", title: "Occupancy %", unit: "number", hint: "The trace's estimate, averaged over the kernel's time" },
  ];
}

/** @type {Column} */
const DEVICE = { key: "device", title: "Device", unit: "text" };
/** @type {(key: string, title: string, hint?: string) => Column} */
const timed = (key, title, hint) => ({ key, title, unit: "time", hint });
/** @type {(key: string, title: string, hint?: string) => Column} */
const counted = (key, title, hint) => ({ key, title, unit: "number", hint });

/** @type {(key: string, title: string, hint?: string) => Column} */
const fine = (key, title, hint) => ({ key, title, unit: "ratio", hint });
/** @type {(key: string, title: string, hint?: string) => Column} */
const shared = (key, title, hint) => ({ key, title, unit: "percent", hint });

/** @type {{table: string, title: string, note: string, sort: string, columns: Column[]}[]} */
const SMALL = [
  {
    table: "devices",
    title: "Devices",
    note: "How long each device worked. Work of two kinds at the same time counts for both.",
    sort: "device",
    columns: [DEVICE, counted("work", "Work"), timed("window_ns", "Recorded"), timed("busy_ns", "Busy"), timed("idle_ns", "Idle"), timed("compute_ns", "Compute"), timed("communication_ns", "Communication"), timed("copy_ns", "Copies"), timed("fill_ns", "Fills")],
  },
  {
    table: "power",
    title: "Power and clocks",
    note: "In the steady steps, or in the run where there are none. The timeline has the curves.",
    sort: "device",
    columns: [DEVICE, counted("mean_watts", "Power, W"), counted("most_watts", "Most, W"), counted("limit_watts", "Limit, W"), fine("joules_per_step", "J a step"), fine("joules", "J in all"), counted("mean_sm_mhz", "SM clock, MHz"), counted("least_sm_mhz", "Lowest, MHz"), counted("most_sm_mhz", "It can, MHz"), counted("mean_memory_mhz", "Memory clock, MHz"), counted("most_celsius", "Hottest, °C"), shared("held_by_power", "Held down by power", "Share of the time in which the power limit held the clocks down"), shared("held_by_heat", "By heat"), shared("held_by_hardware", "By the hardware")],
  },
  {
    table: "hardware",
    title: "Hardware counters",
    note: "Share of what the device can do, in the steady steps, or in the whole run where there are none. The timeline has the curves.",
    sort: "device",
    columns: [DEVICE, { key: "name", title: "Counter", unit: "text" }, shared("mean", "On average"), shared("most", "At most", "Of any sample")],
  },
  {
    table: "idle",
    title: "Why devices were idle",
    note: "",
    sort: "-total_ns",
    columns: [{ key: "reason", title: "Reason", unit: "text" }, DEVICE, timed("total_ns", "Time"), { key: "share", title: "Share", unit: "percent", bar: true }],
  },
  {
    table: "queues",
    title: "Launch queues",
    note: "From the call that launches work to its start. A queue that is mostly empty means that the program is host-bound.",
    sort: "device",
    columns: [DEVICE, { key: "stream", title: "Stream", unit: "text" }, counted("launches", "Launches"), timed("mean_delay_ns", "Mean delay"), timed("median_delay_ns", "Median delay"), timed("max_delay_ns", "Longest delay"), counted("longest", "Longest queue"), timed("empty_ns", "Empty")],
  },
  {
    table: "copies",
    title: "Copies",
    note: "",
    sort: "-total_ns",
    columns: [{ key: "name", title: "Copy", unit: "text" }, DEVICE, counted("count", "Count"), { key: "bytes", title: "Bytes", unit: "bytes" }, timed("total_ns", "Time"), { key: "rate", title: "Bytes per second", unit: "bytes" }, timed("exposed_ns", "Exposed", "While no kernel ran")],
  },
  {
    table: "collectives",
    title: "Communication",
    note: "",
    sort: "-total_ns",
    columns: [{ key: "collective", title: "Collective", unit: "text" }, DEVICE, { key: "dtype", title: "Type", unit: "text" }, counted("group_size", "Group"), counted("count", "Count"), { key: "bytes", title: "Bytes", unit: "bytes" }, timed("total_ns", "Time"), { key: "rate", title: "Bytes per second", unit: "bytes" }, timed("exposed_ns", "Exposed", "While no compute ran")],
  },
  {
    table: "overlap",
    title: "Overlap of communication and compute",
    note: "",
    sort: "device",
    columns: [DEVICE, timed("communication_ns", "Communication"), timed("compute_ns", "Compute"), timed("overlap_ns", "Overlap"), timed("exposed_ns", "Exposed", "Communication that does not overlap with compute")],
  },
];

/** @param {Data} data @param {typeof SMALL[number]} small */
function smallTable(data, small) {
  if (!hasRows(data, small.table)) return null;
  const columns = columnsOf(data, small.table, small.columns);
  const table = new Table({ label: small.title, columns, rows: rowsOf(data, small.table), sort: small.sort, search: false, limit: 20 });
  return h("section", null, h("h2", null, small.title), small.note && h("p", { class: "quiet" }, small.note), table.element);
}
