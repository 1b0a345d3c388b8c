// Kernels, and the rest of what devices did: copies, communication, queues and idling.

import { h } from "stepscope/dom.js";
import { showGrouped } from "stepscope/grouped.js";
import { columnsOf, hasRows, headingsOf, rowsOf } from "stepscope/lib/columns.js";
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
      columns: () => headingsOf(data, "kernels", "total_ns"),
      sort: "-total_ns",
      amount: "total_ns",
    });
    root.append(h("div", { class: "small-tables" }, ...SMALL.map((small) => smallTable(data, small))));
    return leave || undefined;
  },
};

/** @type {Column} */
const DEVICE = { key: "device", title: "Device", unit: "text" };
/** @type {{table: string, title: string, note: string, sort: string, columns?: Column[]}[]} without columns: as measures state them */
const SMALL = [
  {
    table: "devices",
    title: "Devices",
    note: "How long each device worked. Work of two kinds at the same time counts for both.",
    sort: "device",
  },
  {
    table: "power",
    title: "Power and clocks",
    note: "In the steady steps, or in the run where there are none. The timeline has the curves.",
    sort: "device",
  },
  {
    table: "hardware",
    title: "Hardware counters",
    note: "Share of what the device can do, in the steady steps, or in the whole run where there are none. The timeline has the curves.",
    sort: "device",
  },
  {
    table: "idle",
    title: "Why devices were idle",
    note: "",
    sort: "-total_ns",
    columns: [{ key: "reason", title: "Reason", unit: "text" }, DEVICE, { key: "total_ns", title: "Time", unit: "time" }, { key: "share", title: "Share", unit: "percent", bar: true }],
  },
  {
    table: "queues",
    title: "Launch queues",
    note: "From the call that launches work to its start. A queue that is mostly empty means that the program is host-bound.",
    sort: "device",
  },
  {
    table: "copies",
    title: "Copies",
    note: "",
    sort: "-total_ns",
  },
  {
    table: "collectives",
    title: "Communication",
    note: "",
    sort: "-total_ns",
  },
  {
    table: "overlap",
    title: "Overlap of communication and compute",
    note: "",
    sort: "device",
  },
];

/** @param {Data} data @param {typeof SMALL[number]} small */
function smallTable(data, small) {
  if (!hasRows(data, small.table)) return null;
  const columns = columnsOf(data, small.table, small.columns ?? headingsOf(data, small.table));
  const table = new Table({ label: small.title, columns, rows: rowsOf(data, small.table), sort: small.sort, search: false, limit: 20 });
  return h("section", null, h("h2", null, small.title), small.note && h("p", { class: "quiet" }, small.note), table.element);
}
