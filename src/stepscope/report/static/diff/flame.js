// The differential flame graph: as wide as the longer side, coloured by the change.

import { signed } from "stepscope/diff/table.js";
import { h } from "stepscope/dom.js";
import { percent, time } from "stepscope/format.js";

/** @typedef {{name: string, parent: number, before: number, after: number, children: number[]}} Node */

const LEAST = 0.2; // percent of the width: narrower boxes are not drawn

/** @type {import("../app.js").Page} */
export const page = {
  id: "flame",
  title: "Flame graph",
  available: (data) => data.value("diff.flame.names")?.length > 1,
  show(root, data, state, app) {
    const nodes = nodesOf(data);
    const chart = h("div", { class: "diff-flame", role: "tree", "aria-label": "Call paths of a step" });
    const status = h("p", { class: "quiet", "aria-live": "polite" });
    /** @param {number} top */
    const show = (top) => {
      const at = top < nodes.length ? top : 0;
      status.textContent = words(nodes[at], nodes[0]);
      chart.replaceChildren(...levels(nodes, at, (row) => show(row), (row) => (status.textContent = words(nodes[row], nodes[0]))));
      app.note({ at: at ? String(at) : "" });
    };
    root.append(
      h("p", null, "A box is a call path, as wide as the longer of before and after. ", h("span", { class: "diff-key diff-more" }, "longer"), " ", h("span", { class: "diff-key diff-less" }, "shorter"), " Click a box to zoom into it; click the lowest row to go back."),
      status,
      chart,
    );
    show(Number(state.at ?? 0));
  },
};

/** @param {import("../decode.js").Data} data @returns {Node[]} */
function nodesOf(data) {
  const [parent, before, after] = ["parent", "before_ns", "after_ns"].map((name) => data.column(`diff.flame.${name}`));
  /** @type {Node[]} */
  const nodes = data.value("diff.flame.names").map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, parent: parent[i], before: before[i], after: after[i], children: [] }));
  for (let i = 1; i < nodes.length; i++) nodes[nodes[i].parent].children.push(i);
  return nodes;
}

/** @param {Node} node */
function size(node) {
  return Math.max(node.before, node.after);
}

/**
 * The rows of boxes, the outermost first.
 * @param {Node[]} nodes
 * @param {number} top
 * @param {(row: number) => void} open
 * @param {(row: number) => void} tell
 */
function levels(nodes, top, open, tell) {
  /** @type {HTMLElement[]} */
  const rows = [];
  const most = Math.max(...nodes.map((node) => Math.abs(node.after - node.before)), 1);
  /** @type {{row: number, left: number, width: number}[]} */
  let level = [{ row: top, left: 0, width: 100 }];
  while (level.length) {
    const line = h("div", { class: "diff-level" });
    /** @type {typeof level} */
    const next = [];
    for (const { row, left, width } of level) {
      const node = nodes[row];
      line.append(box(node, left, width, most, () => open(row === top && node.parent >= 0 ? node.parent : row), () => tell(row)));
      // Children may be longer in total than the parent: then they share its width.
      const sum = node.children.reduce((total, child) => total + size(nodes[child]), 0);
      const scale = width / Math.max(sum, size(node), 1);
      let at = left;
      for (const child of node.children) {
        const part = size(nodes[child]) * scale;
        if (part >= LEAST) next.push({ row: child, left: at, width: part });
        at += part;
      }
    }
    rows.push(line);
    level = next;
  }
  return rows;
}

/**
 * @param {Node} node
 * @param {number} left percent
 * @param {number} width percent
 * @param {number} most
 * @param {() => void} open
 * @param {() => void} tell
 */
function box(node, left, width, most, open, tell) {
  const more = node.after - node.before;
  const strength = Math.round(Math.min(Math.sqrt(Math.abs(more) / most), 1) * 70);
  const element = h("button", { class: "diff-box", title: `${node.name}: ${time(node.before)} to ${time(node.after)}, ${signed(more)}`, onclick: open, onpointerenter: tell, onfocus: tell }, node.name);
  element.style.left = `${left}%`;
  element.style.width = `${width}%`;
  element.style.background = `color-mix(in srgb, var(${more > 0 ? "--bad" : "--accent"}) ${strength}%, var(--panel))`;
  return element;
}

/** @param {Node} node @param {Node} root */
function words(node, root) {
  const more = node.after - node.before;
  return `${node.name}: ${time(node.before)} to ${time(node.after)}, ${signed(more)} (${percent(more, root.before)} of all)`;
}
