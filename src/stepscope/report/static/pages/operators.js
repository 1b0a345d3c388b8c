// Operators: where the host's time went, and what each of them started on devices.

import { showGrouped } from "stepscope/grouped.js";
import { hasRows, headingsOf } from "stepscope/lib/columns.js";

/** @typedef {import("../decode.js").Data} Data */
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
      columns: (scope) => columns(data, scopes[scope]),
      sort: scopes.some((scope) => scope.self_device_ns > 0) ? "-self_device_ns" : "-self_cpu_ns",
      amount: "self_cpu_ns",
    });
  },
};

/** The columns, with bars of what the scope has in all. @param {Data} data @param {Scope} scope @returns {import("../lib/rows.js").Column[]} */
function columns(data, scope) {
  const when = scope.when === "steps" ? "in the steady steps" : "in the whole run";
  return headingsOf(data, "operators").map((column) => ({
    ...column,
    bar: column.key in scope && Number(scope[/** @type {keyof Scope} */ (column.key)]),
    hint: column.key === "share" ? `${column.hint} ${when}` : column.hint,
  }));
}
