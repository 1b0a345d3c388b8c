// All threads and streams over time.

import { h } from "stepscope/dom.js";
import { listen } from "stepscope/timeline/input.js";
import { Timeline } from "stepscope/timeline/timeline.js";

/** @type {import("../app.js").Page} */
export const page = {
  id: "timeline",
  title: "Timeline",
  bySlice: true,
  available: () => true,
  keys: [
    ["W / S", "zoom in / out"],
    ["A / D, ← / →", "move in time"],
    ["↑ / ↓", "scroll the rows"],
    ["Shift + ← / →", "previous / next slice on the row"],
    ["Shift + ↑ / ↓", "parent / first child"],
    ["F / 0", "fit the selection / everything"],
    ["[ / ]", "previous / next step"],
    ["M", "sum the selected slice or the view"],
    ["N / Shift + N", "next / previous hit"],
    ["Esc", "end the search, clear the selection"],
  ],
  show(root, data, state, app) {
    if (!data.column("slices.start").length) {
      root.append(h("p", null, "The trace has no events to draw."));
      return;
    }
    const shown = new Timeline(data, state, (changes) => app.note(changes));
    root.append(shown.element);
    shown.open();
    const stop = listen(shown);
    const takeTheme = () => shown.takeTheme();
    window.addEventListener("themechange", takeTheme);
    return () => {
      window.removeEventListener("themechange", takeTheme);
      stop();
      shown.close();
    };
  },
};
