// What was profiled, and where its time went.

import { h } from "stepscope/dom.js";
import { number, time } from "stepscope/format.js";

/** @type {import("../app.js").Page} */
export const overview = {
  id: "overview",
  title: "Overview",
  available: () => true,
  show(root, data) {
    const start = data.column("slices.start");
    const duration = data.column("slices.duration");
    let end = 0;
    for (let i = 0; i < start.length; i++) end = Math.max(end, start[i] + duration[i]);
    root.append(h("p", null, `${number(start.length)} events in ${time(end)}`));
  },
};
