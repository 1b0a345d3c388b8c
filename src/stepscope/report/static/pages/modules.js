// The modules of a model: which layer takes the time.

import { h } from "stepscope/dom.js";
import { columnsOf, hasRows, headingsOf, rowsOf } from "stepscope/lib/columns.js";
import { whenChoice } from "stepscope/scopes.js";
import { Table } from "stepscope/table.js";

/** @type {import("../app.js").Page} */
export const page = {
  id: "modules",
  title: "Modules",
  available: (data) => hasRows(data, "modules"),
  missing: {
    shows: "which layer of the model takes the time, the memory and the operations, in both passes",
    why: "Calls of modules were not recorded.",
    option: "--modules",
    argument: "with_modules=True",
  },
  show(root, data, state, app) {
    const times = hasRows(data, "modules.steps") ? ["steps", "run"] : ["run"];
    const when = times.includes(state.when) ? state.when : times[0];
    const name = when === "steps" ? "modules.steps" : "modules";
    const rows = { ...rowsOf(data, name), depth: data.column(`${name}.depth`) };
    const table = new Table({
      label: "modules",
      unit: "modules",
      columns: columnsOf(data, name, columns(data, name)),
      rows,
      sort: data.value(`${name}.device_time`) > 0 ? "-device_ns" : "-total_ns",
      state,
      note: (changes) => app.note(changes),
      levels: levelsOf(rows.depth),
      limit: 400,
    });
    const choice = whenChoice(times, when, (value) => app.go("modules", { ...app.state, when: value }));
    root.append(h("div", { class: "choices" }, choice), table.element);
  },
};

/** How many levels to open: as many as a screen has room for. @param {ArrayLike<number>} depth */
function levelsOf(depth) {
  const within = [1, 2, 3].filter((levels) => Array.from(depth).filter((each) => each <= levels).length <= 40);
  return Math.max(1, ...within);
}

/** The columns, with bars of the time of all. @param {import("../decode.js").Data} data @param {string} name of the table @returns {import("../lib/rows.js").Column[]} */
function columns(data, name) {
  const [whole, device] = [data.value(`${name}.time`), data.value(`${name}.device_time`)];
  /** @type {Record<string, number>} */
  const bars = { total_ns: whole, self_ns: whole, device_ns: device, self_device_ns: device };
  return headingsOf(data, name).map((column) => ({ ...column, bar: bars[column.key] }));
}
