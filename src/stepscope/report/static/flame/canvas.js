// Paints a flame graph: only visible nodes that are wide enough.

import { themed } from "stepscope/dom.js";

/** @typedef {import("./layout.js").Layout} Layout */

export const ROW = 20; // pixels that a row is high
const TEXT = 32; // pixels that a box needs before a name goes in
const LEAST = 0.4; // pixels below which a box is not painted

/**
 * @typedef {object} View
 * @property {number} root the node that is as wide as the canvas
 * @property {number} current the node with the keyboard's mark
 * @property {boolean} marked whether to show that mark
 * @property {number} hover -1 for none
 * @property {boolean} upwards callers at the bottom, as flames have it
 * @property {number} scroll pixels
 * @property {Uint8Array | null} found the nodes that a search has found
 */

export class Painter {
  /**
   * @param {Layout} layout
   * @param {(node: number) => string} nameOf
   * @param {ArrayLike<number>} kinds of the nodes
   * @param {Record<string, number>} codes of the kinds
   */
  constructor(layout, nameOf, kinds, codes) {
    this.layout = layout;
    this.nameOf = nameOf;
    this.kinds = kinds;
    this.codes = { ...codes, NATIVE: 255 }; // flame_merge.py's
    /** @type {string[]} */
    this.fills = [];
    this.colours();
  }

  /** Read the colours of the theme. */
  colours() {
    this.fills = [];
    for (const [kind, code] of Object.entries(this.codes)) this.fills[code] = themed(`--flame-${NAMES[kind] ?? "other"}`);
    this.text = themed("--flame-text");
    this.back = themed("--back");
    this.line = themed("--text");
    this.hit = themed("--flame-hit");
    this.pale = themed("--flame-pale");
    this.quiet = themed("--quiet");
    this.waiting = themed("--flame-waiting");
  }

  /** The colours that are in use, and what they stand for. @returns {[string, string][]} */
  legend() {
    const { layout } = this;
    const seen = Array.from(this.kinds, (_, node) => node).filter((node) => node && layout.total[node] > 0);
    const used = new Set(seen.map((node) => this.kinds[node]));
    const words = Object.entries(this.codes).flatMap(([kind, code]) => (used.has(code) ? [NAMES[kind] ?? "other"] : []));
    if (layout.waited[0] > 0) words.push("waiting");
    return [...new Set(words)].map((word) => [WORDS[word], `--flame-${word}`]);
  }

  /** The height of all rows. */
  height() {
    return (this.layout.deepest + 1) * ROW;
  }

  /** Where a row's top is. @param {number} depth @param {View} view @param {number} height of the canvas */
  top(depth, view, height) {
    const all = Math.max(this.height(), height);
    return (view.upwards ? all - (depth + 1) * ROW : depth * ROW) - view.scroll;
  }

  /**
   * The node at a place of the canvas, -1 for none.
   * @param {number} x @param {number} y @param {number} width @param {number} height @param {View} view
   */
  at(x, y, width, height, view) {
    const all = Math.max(this.height(), height);
    const depth = Math.floor((view.upwards ? all - y - view.scroll : y + view.scroll) / ROW);
    const { layout } = this;
    if (depth < 0 || depth > layout.deepest) return -1;
    if (depth <= layout.depth[view.root]) return layout.path(view.root)[layout.depth[view.root] - depth];
    return layout.at(depth, layout.start[view.root] + (x / width) * layout.total[view.root]);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width @param {number} height
   * @param {View} view
   */
  paint(context, width, height, view) {
    const { layout } = this;
    context.fillStyle = this.back ?? "";
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const scale = width / (layout.total[view.root] || 1);
    const left = layout.start[view.root];
    for (const node of layout.path(view.root)) this.box(context, node, 0, width, height, view);
    const waiting = [view.root];
    while (waiting.length) {
      const caller = /** @type {number} */ (waiting.pop());
      for (let node = layout.below(caller); node >= 0; node = layout.beside(node, 1)) {
        const wide = layout.total[node] * scale;
        if (wide < LEAST) break; // the largest come first: all others are as small
        this.box(context, node, (layout.start[node] - left) * scale, wide, height, view);
        waiting.push(node);
      }
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} node @param {number} x @param {number} wide @param {number} height of the canvas
   * @param {View} view
   */
  box(context, node, x, wide, height, view) {
    const y = this.top(this.layout.depth[node], view, height);
    if (y + ROW < 0 || y > height) return;
    const above = this.layout.depth[node] < this.layout.depth[view.root];
    const missed = view.found && !view.found[node];
    const fill = this.layout.waits(node) ? this.waiting : this.fills[this.kinds[node]];
    context.fillStyle = (view.found?.[node] ? this.hit : missed || above ? this.pale : fill) || this.pale || "";
    const inner = Math.max(wide - (wide > 3 ? 1 : 0), LEAST);
    context.fillRect(x, y, inner, ROW - 1);
    const current = view.marked && node === view.current;
    if (current || node === view.hover) {
      context.strokeStyle = this.line ?? "";
      context.lineWidth = current ? 2 : 1;
      context.strokeRect(x + 1, y + 1, Math.max(inner - 2, 1), ROW - 3);
    }
    if (wide < TEXT) return;
    context.fillStyle = (missed || above ? this.quiet : this.text) ?? "";
    context.fillText(fitted(context, this.nameOf(node), inner - 8), x + 4, y + ROW / 2);
  }
}

/** @type {Record<string, string>} */
const NAMES = {
  PYTHON: "python",
  OPERATOR: "operator",
  RANGE: "range",
  STEP: "range",
  RUNTIME: "runtime",
  KERNEL: "device",
  MEMCPY: "device",
  MEMSET: "device",
  SYNC: "device",
  DEVICE_RANGE: "device",
  MODULE: "module",
  NATIVE: "native",
};

/** @type {Record<string, string>} */
const WORDS = { python: "Python", native: "native code", operator: "operator", range: "range", runtime: "runtime call", device: "device work", module: "module", other: "other", waiting: "waiting" };

/** As much of a text as fits. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fitted(context, text, width) {
  const short = text.length > 200 ? text.slice(0, 200) : text;
  if (short === text && context.measureText(text).width <= width) return text;
  let [fits, fails] = [0, short.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (context.measureText(`${short.slice(0, middle)}…`).width <= width) fits = middle;
    else fails = middle;
  }
  return fits ? `${short.slice(0, fits)}…` : "";
}
