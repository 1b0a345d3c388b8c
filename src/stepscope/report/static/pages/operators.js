// Operators: where the host's time went, and what each of them started on devices.

import { showGrouped } from "stepscope/grouped.js";
import { hasRows } from "stepscope/lib/columns.js";

/** @type {import("../app.js").Page} */
export const page = {
  id: "operators",
  title: "Operators",
  available: (data) => hasRows(data, "operators.name"),
  show(root, data, state, app) {
    return showGrouped(root, data, state, app, {
      table: "operators",
      unit: "operators",
      kind: "operator",
      columns: columns(data),
      sort: data.value("operators.self_device_ns") > 0 ? "-self_device_ns" : "-self_cpu_ns",
      amount: "self_cpu_ns",
    });
  },
};

/** @param {import("../decode.js").Data} data @returns {import("../lib/rows.js").Column[]} */
function columns(data) {
  return [
    { key: "name", title: "Name", unit: "text" },
    { key: "kind", title: "Kind", unit: "text" },
    { key: "count", title: "Calls", unit: "number" },
    { key: "self_cpu_ns", title: "Self CPU", unit: "time", bar: data.value("operators.self_cpu_ns"), hint: "Time on the host, without the calls inside" },
    { key: "share", title: "Share", unit: "percent", hint: "Of the self CPU time of all calls" },
    { key: "cpu_ns", title: "Total CPU", unit: "time", hint: "Time on the host, with the calls inside" },
    { key: "mean_ns", title: "Mean", unit: "time", hint: "Total CPU time of a call" },
    { key: "self_device_ns", title: "Self device", unit: "time", bar: data.value("operators.self_device_ns"), hint: "Time of the device work that it launched itself" },
    { key: "device_ns", title: "Total device", unit: "time", hint: "Time of the device work that it and the calls inside launched" },
    { key: "flops", title: "FLOPs", unit: "flops", hint: "Floating-point operations, counted from the input shapes" },
    { key: "flops_per_second", title: "FLOP/s", unit: "flops/s", hint: "In the device's time where it worked, else in the host's" },
    { key: "self_cpu_bytes", title: "Self memory", unit: "bytes", hint: "Allocated less freed on the CPU, without the calls inside" },
    { key: "cpu_bytes", title: "Memory", unit: "bytes", hint: "Allocated less freed on the CPU" },
    { key: "self_device_bytes", title: "Self device memory", unit: "bytes", hint: "Allocated less freed on devices, without the calls inside" },
    { key: "device_bytes", title: "Device memory", unit: "bytes", hint: "Allocated less freed on devices" },
  ];
}
