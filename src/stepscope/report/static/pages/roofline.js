// How far operators are from what the device can do: the roofline, and a table of what is in it.

import { h } from "stepscope/dom.js";
import { percent, scaled, time } from "stepscope/format.js";
import { hasRows, headingsOf, rowsOf } from "stepscope/lib/columns.js";
import { Plot } from "stepscope/roofline/plot.js";
import { Table } from "stepscope/table.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../lib/rows.js").Rows} Rows */
/** @typedef {import("../roofline/scale.js").Point} Point */
/**
 * @typedef {object} About
 * @property {string} model of the devices, "": not known
 * @property {string} source of the peaks
 * @property {number} bytes_per_second
 * @property {Record<string, number>} roofs FLOP/s by type
 * @property {number} told_ns device time of what has a roof
 * @property {number} compute_ns device time of all compute kernels
 * @property {number} saved_ns at 80 % of the roofs
 */

const MOST_POINTS = 300; // what takes less time than those is in the table

/** @type {import("../app.js").Page} */
export const page = {
  id: "roofline",
  title: "Roofline",
  available: (data) => hasRows(data, "roofline"),
  missing: {
    shows: "how far operators are from what the device can do, and what would be saved at 80 % of that",
    why: "No operator that ran on a device has its input shapes in the trace.",
    option: "--shapes",
    argument: "record_shapes=True",
  },
  keys: [
    ["← →", "go from one operator to the next, when the plot has the focus"],
    ["Enter", "show it in the table"],
  ],
  show(root, data, state, app) {
    const rows = rowsOf(data, "roofline");
    /** @type {About} */
    const about = data.value("roofline.about");
    const columns = headingsOf(data, "roofline", "device_ns");
    const points = pointsOf(rows);
    const line = h("p", { class: "quiet roofline-point", role: "status" });
    /** @param {number} row */
    const tell = (row) => (line.textContent = row < 0 ? hint(points) : describe(rows, row));
    const plot = new Plot({
      points,
      roofs: about.roofs,
      memory: about.bytes_per_second,
      choose: tell,
      pick: (row) => table.filter(`${rows.value("operator", row)} ${rows.value("shapes", row)}`.trim()),
    });
    const table = new Table({
      label: "operators by shapes",
      unit: "operators by shapes",
      columns,
      rows,
      sort: "-device_ns",
      state,
      note: (changes) => app.note(changes),
      pick(row) {
        plot.mark(row);
        tell(row);
      },
    });
    tell(-1);
    root.append(h("p", null, ...summary(data, about)), plot.canvas, line, table.element);
    return () => plot.close();
  },
};

/** What the device can do, and how much of its time is known here. @param {Data} data @param {About} about */
function summary(data, about) {
  const { model, source, told_ns, compute_ns, saved_ns } = about;
  const used = data.value("answer")?.device?.flops_utilisation;
  const utilisation = used ? ` The steps use ${percent(used, 1)} of the 16-bit peak (model FLOP utilisation).` : "";
  if (!source) {
    const whose = model ? `The peaks of ${model}` : "The peaks of this device";
    return [`${whose} are not known: there is no roof to compare with. On its machine, `, h("code", null, "stepscope device-peaks"), " measures them."];
  }
  const share = percent(Math.min(told_ns, compute_ns), compute_ns);
  return [
    h("strong", null, `At 80 % of their roofs, these operators would save ${time(saved_ns)} of ${time(told_ns)}.`),
    ` A roof is known for ${share} of the compute time.${utilisation}`,
    h("br"),
    h("span", { class: "quiet" }, `Peaks of ${model}: ${source}. Bytes are inputs and results, each moved once.`),
  ];
}

/** @param {Rows} rows @returns {Point[]} those with the most time first */
function pointsOf(rows) {
  const points = [];
  for (let row = 0; row < rows.length && points.length < MOST_POINTS; row++) {
    const [intensity, rate] = [Number(rows.value("intensity", row)), Number(rows.value("flops_per_second", row))];
    const [time, dtype] = [Number(rows.value("device_ns", row)), String(rows.value("dtype", row))];
    if (intensity > 0 && rate > 0) points.push({ intensity, rate, time, dtype, row });
  }
  return points;
}

/** @param {Point[]} points */
function hint(points) {
  return points.length
    ? "A circle is an operator with its shapes, as large as its device time; what moves bytes without operations (copies, fills) is in the table only."
    : "No operator has both operations and bytes that are known: see the table.";
}

/** @param {Rows} rows @param {number} row */
function describe(rows, row) {
  /** @type {(key: string) => number} */
  const value = (key) => Number(rows.value(key, row));
  const share = value("share");
  const roof = Number.isNaN(share) ? "" : `, ${percent(share, 1)} of its roof (${rows.value("limit", row)})`;
  const rate = value("flops_per_second") ? `${scaled(value("flops_per_second"), "FLOP/s")}, ` : "";
  const moved = Number.isNaN(value("bytes_per_second")) ? "" : `${scaled(value("bytes_per_second"), "B/s")}, `;
  const shapes = rows.value("shapes", row);
  return `${rows.value("operator", row)}${shapes ? ` (${shapes})` : ""} ${rows.value("dtype", row)}: ${rate}${moved}${time(value("device_ns"))}${roof}`;
}
