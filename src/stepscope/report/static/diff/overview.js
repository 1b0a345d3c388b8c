// A comparison: the verdict, the steps of both sides on one scale, and what changed.

import { diffTable } from "stepscope/diff/table.js";
import { fitted, h, select, themed } from "stepscope/dom.js";
import { number, time } from "stepscope/format.js";
import { ticks } from "stepscope/lib/bars.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {{by: string, title: string, rows: [string, number, number, string][]}} Table */

const LEFT = 70;
const TOP = 20;
const BOTTOM = 8;
const GAP = 24; // between the sides

/** @type {import("../app.js").Page} */
export const page = {
  id: "comparison",
  title: "Comparison",
  available: () => true,
  show(root, data, state, app) {
    const diff = data.value("diff");
    const change = diff.is_real ? (diff.change > 0 ? "diff-slower" : "diff-faster") : "";
    /** @type {Table[]} */
    const tables = diff.tables;
    const place = h("div");
    /** @param {string} by */
    const show = (by) => {
      const table = tables.find((each) => each.by === by) ?? tables[0];
      place.replaceChildren(diffTable(table.rows, diff.before_ns, diff.unit));
    };
    const chosen = state.by ?? tables[0].by;
    const choices = /** @type {[string, string][]} */ (tables.map(({ by, title }) => [by, title]));
    const by = select("Sorted by", choices, chosen, (value) => {
      show(value);
      app.note({ by: value });
    });
    const steps = new Steps(data);
    root.append(
      h("h1", { class: `diff-verdict ${change}` }, diff.verdict),
      h("ul", { class: "diff-facts quiet" }, ...[...diff.facts, ...diff.others].map((/** @type {string} */ line) => h("li", null, line))),
      h("h2", null, `${diff.unit === "run" ? "Runs" : "Steps"} of both sides, on one scale`),
      steps.element,
      h("h2", null, `What changed: ${time(diff.before_ns)} to ${time(diff.after_ns)}`),
      by,
      place,
    );
    show(chosen);
    return steps.open();
  },
};

/** The steps of both sides: a dot each, the median of each run a line, one scale for both. */
class Steps {
  /** @param {Data} data */
  constructor(data) {
    this.sides = ["before", "after"].map((word) => ({ word, ns: data.column(`diff.${word}.ns`), run: data.column(`diff.${word}.run`) }));
    // A few extremely long steps would flatten all others.
    const all = this.sides.flatMap(({ ns }) => Array.from(ns)).sort((a, b) => a - b);
    this.highest = 1.15 * (all[Math.floor(all.length * 0.95)] ?? 1);
    this.beyond = all.filter((ns) => ns > this.highest).length;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "diff-steps", role: "img", "aria-label": "Step times before and after" }));
    const beyond = this.beyond ? `${number(this.beyond)} longer ones are at the upper edge.` : "";
    this.element = h("div", null, this.canvas, h("p", { class: "quiet" }, `A dot is a step, a line the median of a run. ${beyond}`));
  }

  /** Start drawing. @returns {() => void} stops it */
  open() {
    return fitted(this.canvas, (context, width, height) => this.paint(context, width, height)).close;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  paint(context, width, height) {
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const y = (/** @type {number} */ ns) => height - BOTTOM - (Math.min(ns, this.highest) / this.highest) * (height - TOP - BOTTOM);
    for (const ns of ticks(this.highest, 5)) {
      context.strokeStyle = themed("--line");
      context.beginPath();
      context.moveTo(LEFT, Math.round(y(ns)) + 0.5);
      context.lineTo(width, Math.round(y(ns)) + 0.5);
      context.stroke();
      context.fillStyle = themed("--quiet");
      context.fillText(ns ? time(ns) : "0", LEFT - 6, y(ns));
    }
    const room = (width - LEFT - GAP) / 2;
    for (const [i, side] of this.sides.entries()) this.paintSide(context, side, LEFT + i * (room + GAP), room, y);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {{word: string, ns: ArrayLike<number>, run: ArrayLike<number>}} side
   * @param {number} left
   * @param {number} room
   * @param {(ns: number) => number} y
   */
  paintSide(context, { word, ns, run }, left, room, y) {
    const colour = themed(word === "before" ? "--accent" : "--mark");
    context.textAlign = "left";
    context.fillStyle = themed("--text");
    context.fillText(`${word}: median ${time(median(Array.from(ns)))}`, left, TOP / 2);
    const pitch = room / Math.max(ns.length, 1);
    context.fillStyle = colour;
    context.globalAlpha = 0.55;
    for (let i = 0; i < ns.length; i++) context.fillRect(left + i * pitch, y(ns[i]) - 1, Math.max(pitch * 0.8, 1.5), 2);
    context.globalAlpha = 1;
    for (let from = 0; from < ns.length; ) {
      let to = from;
      while (to < ns.length && run[to] === run[from]) to++;
      const middle = y(median(Array.from(ns).slice(from, to)));
      context.fillStyle = themed("--text");
      context.fillRect(left + from * pitch, middle - 1, Math.max((to - from) * pitch - 3, 2), 2);
      from = to;
    }
  }
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}
