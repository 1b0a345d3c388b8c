// The modules of a model: which layer takes the time.

import { h } from "stepscope/dom.js";
import { columnsOf, hasRows, rowsOf } from "stepscope/lib/columns.js";
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

/** @param {import("../decode.js").Data} data @param {string} name of the table @returns {import("../lib/rows.js").Column[]} */
function columns(data, name) {
  const [whole, device] = [data.value(`${name}.time`), data.value(`${name}.device_time`)];
  return [
    { key: "label", title: "Module", unit: "text" },
    { key: "class", title: "Class", unit: "text" },
    { key: "calls", title: "Calls", unit: "number" },
    { key: "total_ns", title: "Total time", unit: "time", bar: whole, hint: "Time on the host in both passes, with the modules inside" },
    { key: "self_ns", title: "Self time", unit: "time", bar: whole, hint: "Without the modules inside" },
    { key: "forward_ns", title: "Forward", unit: "time" },
    { key: "backward_ns", title: "Backward", unit: "time" },
    { key: "device_ns", title: "Device", unit: "time", bar: device, hint: "Time of the device work that it and the modules inside launched" },
    { key: "self_device_ns", title: "Self device", unit: "time", bar: device },
    { key: "memory_bytes", title: "Memory", unit: "bytes", hint: "Allocated less freed on the CPU" },
    { key: "self_memory_bytes", title: "Self memory", unit: "bytes" },
    { key: "device_memory_bytes", title: "Device memory", unit: "bytes", hint: "Allocated less freed on devices" },
    { key: "self_device_memory_bytes", title: "Self device memory", unit: "bytes" },
    { key: "flops", title: "FLOPs", unit: "flops", hint: "Floating-point operations, counted from the input shapes" },
    { key: "operators", title: "Operators", unit: "number", hint: "That ran in it, not in the modules inside" },
    { key: "parameters", title: "Parameters", unit: "number", hint: "Its own and those of the modules inside" },
    { key: "name", title: "Qualified name", unit: "text" },
  ];
}
