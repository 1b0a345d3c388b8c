// Operators: where the host's time went, and what each of them started on devices.

import { showGrouped } from "stepscope/grouped.js";
import { hasRows } from "stepscope/lib/columns.js";

/** @typedef {import("../scopes.js").Scope & {self_cpu_ns: number, self_device_ns: number}} Scope */

/** @type {import("../app.js").Page} */
export const page = {
  id: "operators",
  title: "Operators",
  available: (data) => hasRows(data, "operators.name"),
  missing: { shows: "operators, ranges and calls, and how long each took", why: "None of them was recorded." },
  show(root, data, state, app) {
    /** @type {Scope[]} */
    const scopes = data.value("operators.scopes");
    return showGrouped(root, data, state, app, {
      table: "operators",
      unit: "operators",
      kind: "operator",
      columns: (scope) => columns(scopes[scope]),
      sort: scopes.some((scope) => scope.self_device_ns > 0) ? "-self_device_ns" : "-self_cpu_ns",
      amount: "self_cpu_ns",
    });
  },
};

/** @param {Scope} scope @returns {import("../lib/rows.js").Column[]} */
function columns(scope) {
  const when = scope.when === "steps" ? "in the steady steps" : "in the whole run";
  return [
    { key: "name", title: "Name", unit: "text" },
    { key: "kind", title: "Kind", unit: "text" },
    { key: "count", title: "Calls", unit: "number" },
    { key: "self_cpu_ns", title: "Self time", unit: "time", bar: scope.self_cpu_ns, hint: "Time on the host, without the calls inside and without waiting" },
    { key: "share", title: "Share", unit: "percent", hint: `Of the self time of all calls ${when}` },
    { key: "waiting_ns", title: "Waiting", unit: "time", hint: "Time in which the thread waited here for another thread, a file, a process or a timer" },
    { key: "cpu_ns", title: "Total time", unit: "time", hint: "Time on the host, with the calls inside; a call inside another of the same name counts once" },
    { key: "mean_ns", title: "Mean", unit: "time", hint: "Time of a call, with the calls inside" },
    { key: "self_device_ns", title: "Self device", unit: "time", bar: scope.self_device_ns, hint: "Time of the device work that it launched itself" },
    { key: "device_ns", title: "Total device", unit: "time", hint: "Time of the device work that it and the calls inside launched" },
    { key: "flops", title: "FLOPs", unit: "flops", hint: "Floating-point operations, counted from the input shapes" },
    { key: "flops_per_second", title: "FLOP/s", unit: "flops/s", hint: "In the device's time where it worked, else in the host's" },
    { key: "self_cpu_bytes", title: "Self memory", unit: "bytes", hint: "Allocated less freed on the CPU, without the calls inside" },
    { key: "cpu_bytes", title: "Memory", unit: "bytes", hint: "Allocated less freed on the CPU" },
    { key: "self_device_bytes", title: "Self device memory", unit: "bytes", hint: "Allocated less freed on devices, without the calls inside" },
    { key: "device_bytes", title: "Device memory", unit: "bytes", hint: "Allocated less freed on devices" },
  ];
}
