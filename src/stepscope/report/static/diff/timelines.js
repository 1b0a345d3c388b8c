// A usual step of each side, one above the other, locked together.

import { Data } from "stepscope/decode.js";
import { h } from "stepscope/dom.js";
import { time } from "stepscope/format.js";
import { listen } from "stepscope/timeline/input.js";
import { Timeline } from "stepscope/timeline/timeline.js";

/** @type {WeakMap<Data, Data[]>} */
const built = new WeakMap();

/** @type {import("../app.js").Page} */
export const page = {
  id: "timelines",
  title: "Timelines",
  available: (data) => data.column("before/slices.start").length > 0 && data.column("after/slices.start").length > 0,
  keys: [
    ["W / S", "zoom in / out, both"],
    ["A / D, ← / →", "move in time, both"],
    ["0", "everything"],
  ],
  show(root, data, _state, _app) {
    const sides = built.get(data) ?? ["before/", "after/"].map((prefix) => sideOf(data, prefix));
    built.set(data, sides);
    const shown = sides.map((side) => new Timeline(side, {}, () => {}));
    const until = Math.max(...sides.map((side) => side.value("duration")));
    for (const [i, timeline] of shown.entries()) {
      timeline.view.until = until;
      timeline.view.all();
      const label = `${i ? "after" : "before"}: ${sides[i].value("label")}, a step of ${time(sides[i].value("duration"))}`;
      root.append(h("section", { class: "diff-timeline" }, h("h2", null, label), timeline.element));
    }
    lock(shown);
    for (const timeline of shown) {
      timeline.open();
      timeline.redraw();
    }
    // Keys on one timeline move both.
    const stops = shown.map((timeline, i) => listen(timeline, i === 0));
    const takeTheme = () => shown.forEach((timeline) => timeline.takeTheme());
    window.addEventListener("themechange", takeTheme);
    return () => {
      window.removeEventListener("themechange", takeTheme);
      stops.forEach((stop) => stop());
      shown.forEach((timeline) => timeline.close());
    };
  },
};

/** The data of one side, under the names that a report of one trace has. @param {Data} data @param {string} prefix */
function sideOf(data, prefix) {
  /** @param {Record<string, any>} all */
  const own = (all) => Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [])));
  return new Data({ columns: own(data.header.columns), values: own(data.header.values) }, data.bytes);
}

/** Show the same time in both. @param {Timeline[]} shown */
function lock(shown) {
  let busy = false;
  for (const timeline of shown) {
    const redraw = timeline.redraw.bind(timeline);
    timeline.redraw = () => {
      redraw();
      if (busy) return;
      busy = true;
      for (const other of shown) {
        if (other === timeline) continue;
        other.view.from = timeline.view.from;
        other.view.to = timeline.view.to;
        other.showDepths(true);
        other.redraw();
      }
      busy = false;
    };
  }
}
