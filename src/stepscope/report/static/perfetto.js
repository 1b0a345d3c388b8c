// Opens a trace in Perfetto: the server of `stepscope view` has the trace; a report that was
// opened from a file explains how to write it.

import { h, showDialog } from "stepscope/dom.js";

const SERVED = /^(\/[^/]+\/)report\/([^/]+)$/;

export function perfettoButton() {
  const served = location.protocol === "http:" ? SERVED.exec(location.pathname) : null;
  const title = "Open this trace in Perfetto";
  if (!served) return h("button", { onclick: tell, title }, "Perfetto");
  const go = () => location.assign(`${served[1]}perfetto/${served[2]}`);
  return h("button", { onclick: go, title }, "Perfetto");
}

function tell() {
  showDialog(
    "Open in Perfetto",
    h("p", null, "Write the trace for Perfetto, and open the file at ui.perfetto.dev:"),
    h("pre", null, "stepscope export TRACE -o trace.pftrace"),
    h("p", null, "Or let a page do both, for all traces of a folder:"),
    h("pre", null, "stepscope view FOLDER"),
  );
}
