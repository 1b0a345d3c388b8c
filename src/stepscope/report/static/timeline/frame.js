// The elements of the timeline's page.

import { h } from "stepscope/dom.js";
import { number } from "stepscope/format.js";
import { AXIS_HEIGHT } from "stepscope/timeline/axis.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Head} Head */
/** @typedef {import("./timeline.js").Timeline} Timeline */

/** @param {number} count of slices */
export function frame(count) {
  const axis = /** @type {HTMLCanvasElement} */ (
    h("canvas", {
      class: "timeline-axis",
      role: "img",
      "aria-label": "Time axis with the steps; keys [ and ] go from step to step",
      style: `height: ${AXIS_HEIGHT}px`,
    })
  );
  const canvas = /** @type {HTMLCanvasElement} */ (
    h("canvas", {
      class: "timeline-canvas",
      tabindex: "0",
      role: "application",
      "aria-label": `Timeline of ${number(count)} slices; Shift and arrows select them`,
      "aria-describedby": "timeline-details",
    })
  );
  const heads = h("div", { class: "timeline-names", role: "group", "aria-label": "Threads and streams" });
  const scroller = h("div", { class: "timeline-scroll" }, heads, canvas);
  const panel = h("aside", {
    class: "timeline-details",
    id: "timeline-details",
    "aria-label": "Selection",
    "aria-live": "polite",
  });
  const tip = h("div", { class: "timeline-tip", "aria-hidden": "true", hidden: true });
  const query = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", placeholder: "Search names (/)", "aria-label": "Search names" })
  );
  const found = h("output", { class: "quiet", "aria-live": "polite" });
  const place = h("span", { class: "quiet timeline-place" });
  const tools = h("div", { class: "timeline-tools", role: "toolbar", "aria-label": "Timeline" });
  const corner = h("span", { class: "timeline-corner quiet" }, "Thread or stream");
  const head = h("div", { class: "timeline-head" }, corner, axis);
  const element = h("div", { class: "timeline" }, tools, head, scroller, panel, tip);
  return { element, axis, canvas, heads, scroller, panel, tip, query, found, place, tools };
}

/** What stands in the tool bar. @param {Timeline} timeline */
export function tools(timeline) {
  const { view } = timeline;
  /** @param {string} text @param {string} label @param {() => void} action */
  const button = (text, label, action) => h("button", { title: label, "aria-label": label, onclick: action }, text);
  return [
    timeline.query,
    button("‹", "Previous hit (Shift + N)", () => timeline.nextHit(-1)),
    button("›", "Next hit (N)", () => timeline.nextHit(1)),
    timeline.found,
    h("span", { class: "timeline-space" }),
    timeline.place,
    button("−", "Zoom out (S)", () => timeline.move(() => view.zoom(1 / 1.5))),
    button("+", "Zoom in (W)", () => timeline.move(() => view.zoom(1.5))),
    button("Fit", "Fit the selection (F)", () => timeline.fit()),
    button("All", "Show everything (0)", () => timeline.all()),
    button("◂ Step", "Previous step ([)", () => timeline.step(-1)),
    button("Step ▸", "Next step (])", () => timeline.step(1)),
  ];
}

/**
 * The names of the rows, which fold and open them.
 * @param {Layout} layout
 * @param {ReadonlySet<string>} closed
 * @param {(key: string) => void} fold
 */
export function gutter({ heads }, closed, fold) {
  return heads.map((head) => {
    const open = !closed.has(head.key);
    const [name, kind] = nameOf(head);
    const foldable = head.group || (head.track && head.track.lanes.length > 1);
    return h(
      "button",
      {
        class: `timeline-name timeline-${kind}`,
        style: `top: ${head.top}px; height: ${head.height}px`,
        title: name,
        "data-key": head.key,
        "aria-expanded": foldable ? String(open) : null,
        onclick: () => foldable && fold(head.key),
      },
      h("span", { class: "timeline-fold", "aria-hidden": "true" }, foldable ? (open ? "▾" : "▸") : ""),
      h("span", { class: "timeline-text" }, name),
    );
  });
}

/** @param {Head} head @returns {[string, string]} */
function nameOf({ group, track, counter }) {
  if (counter) return [`${counter.name}, ${counter.unit}`, "track"];
  return group ? [group.name, "group"] : [track?.name ?? "", "track"];
}
