// The names of the rows, which fold and open them.

import { h } from "stepscope/dom.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Head} Head */

/**
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
