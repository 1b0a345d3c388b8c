// The flame graph: where a metric comes from, by Python stacks or by what encloses what.

import { fitted, h, select } from "stepscope/dom.js";
import { Painter, ROW } from "stepscope/flame/canvas.js";
import { hasWaiting, ownOf, timesOf } from "stepscope/flame/cells.js";
import { Layout } from "stepscope/flame/layout.js";
import { bytes, number, percent, time } from "stepscope/format.js";
import { textsOf } from "stepscope/lib/columns.js";
import { placeName, threadsOf, tracksOf, whenChoice, whereChoice } from "stepscope/scopes.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../app.js").App} App */

/** @type {Record<string, string>} */
const VIEWS = { samples: "sampled stacks", stacks: "stacks of operators", calls: "call nesting" };
/** @type {Record<string, [string, (value: number) => string]>} */
const METRICS = {
  cpu_ns: ["time", time],
  device_ns: ["device time", time],
  cpu_bytes: ["allocated memory", bytes],
  device_bytes: ["allocated device memory", bytes],
};
const TIP = 14; // pixels from the mouse to its tip

/** @type {import("../app.js").Page} */
export const page = {
  id: "flame",
  title: "Flame graph",
  keys: [
    ["←↑→↓", "go to the next call in that direction"],
    ["Enter", "zoom to the call"],
    ["Escape", "zoom out by one call"],
  ],
  available: (data) => (data.value("flame.views") ?? []).length > 0 && data.column("flame.calls.up").length > 1,
  missing: { shows: "where the time goes, by what calls what", why: "No calls were recorded." },
  show(root, data, state, app) {
    const graph = new Graph(root, data, state, app);
    return () => graph.close();
  },
};

class Graph {
  /** @param {HTMLElement} root @param {Data} data @param {Record<string, string>} state @param {App} app */
  constructor(root, data, state, app) {
    this.app = app;
    this.data = data;
    this.state = state;
    this.views = /** @type {string[]} */ (data.value("flame.views"));
    this.kind = this.views.includes(state.view) ? state.view : this.views[0];
    const name = `flame.${this.kind}`;
    this.name = name;
    this.metrics = /** @type {string[]} */ (data.value(`${name}.metrics`));
    const preferred = this.metrics.includes("device_ns") ? "device_ns" : this.metrics[0];
    this.metric = this.metrics.includes(state.metric) ? state.metric : preferred;
    this.words = METRICS[this.metric][0];
    this.shown = METRICS[this.metric][1];
    const times = timesOf(data, name, this.metric);
    this.when = times.includes(state.when) ? state.when : times[0];
    const text = data.column(`${name}.text`);
    this.texts = textsOf(data, name);
    this.textCount = data.column(`${name}.ends`).length;
    const asked = { metric: this.metric, steps: this.when === "steps", waiting: state.waiting === "shown", tracks: tracksOf(data, state.thread ?? "") };
    this.layout = new Layout({ up: data.column(`${name}.up`), text, ...ownOf(data, name, asked) });
    this.painter = new Painter(this.layout, (node) => this.texts(text[node]), data.column(`${name}.kind`), data.value("kinds"));
    const zoomed = Number(state.at ?? 0);
    this.view = {
      root: zoomed in this.layout.parent && this.layout.total[zoomed] > 0 ? zoomed : 0,
      current: 0,
      marked: false,
      hover: -1,
      upwards: state.up === "1",
      scroll: 0,
      found: /** @type {Uint8Array | null} */ (null),
    };
    this.view.current = this.view.root;
    this.query = state.q ?? "";
    this.crumbsOf = -1; // the node whose callers the breadcrumbs show
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", { tabindex: 0, role: "application", "aria-roledescription": "flame graph", "aria-label": "Flame graph; arrow keys move, Enter zooms, Escape zooms out", "aria-describedby": "flame-details" })
    );
    this.scroller = h("div", { class: "flame-scroll" }, h("div", { class: "flame-rows", style: `height: ${this.painter.height()}px` }, this.canvas));
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "Zoomed to" });
    this.details = h("div", { class: "flame-details", id: "flame-details", role: "status" });
    this.hits = h("span", { class: "quiet", role: "status" });
    this.tip = h("div", { class: "flame-tip", "aria-hidden": "true", hidden: true });
    this.themed = () => {
      this.painter.colours();
      this.fit.redraw();
    };
    root.append(this.tools(), this.crumbs, this.details, this.scroller, this.legend(), this.tip);
    this.fit = fitted(this.canvas, (context, width, height) => this.painter.paint(context, width, height, this.view));
    this.listen();
    this.showEnd();
    this.find(this.query);
    this.tell();
  }

  /** The choices above the graph. */
  tools() {
    const { app, data, name, state, views, metrics } = this;
    const input = /** @type {HTMLInputElement} */ (
      h("input", { type: "search", placeholder: "Search (key /)", "aria-label": "Search the flame graph", oninput: () => this.search(input.value) })
    );
    input.value = this.query;
    const turn = h("button", { "aria-pressed": String(this.view.upwards), title: "Callers at the bottom", onclick: () => this.turn(turn) }, "Flames up");
    const change = (/** @type {Record<string, string>} */ changes) => app.go("flame", { ...app.state, ...changes });
    // Views number nodes differently, so the zoom is lost.
    const byView = (/** @type {string} */ value) => app.go("flame", without({ ...app.state, view: value }, "at"));
    const merged = data.value(`${name}.merged`);
    return h(
      "div",
      { class: "choices" },
      views.length > 1 && select("By", views.map((each) => [each, VIEWS[each]]), this.kind, byView),
      metrics.length > 1 && select("Width", metrics.map((each) => [each, METRICS[each][0]]), this.metric, (metric) => change({ metric })),
      whenChoice(timesOf(data, name, this.metric), this.when, (when) => change({ when })),
      whereChoice(data, () => true, state.thread ?? "", (thread) => change({ thread })),
      this.metric === "cpu_ns" && hasWaiting(data, name) &&
        select("Waiting", [["hidden", "hidden"], ["shown", "shown"]], state.waiting === "shown" ? "shown" : "hidden", (waiting) => change({ waiting })),
      turn,
      input,
      this.hits,
      merged > 0 && h("span", { class: "quiet" }, `${number(merged)} of the smallest calls are merged into (others)`),
    );
  }

  legend() {
    const items = this.painter.legend().map(([word, colour]) =>
      h("span", null, h("span", { class: "swatch", style: `background: var(${colour})` }), word),
    );
    return h("p", { class: "flame-legend quiet" }, ...items);
  }

  listen() {
    const { canvas, scroller } = this;
    canvas.addEventListener("pointermove", (event) => {
      this.point(this.under(event));
      this.placeTip(event);
    });
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node >= 0) this.zoom(node);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["focus", "blur"]) {
      canvas.addEventListener(name, () => {
        this.view.marked = name === "focus";
        this.fit.redraw();
      });
    }
    scroller.addEventListener("scroll", () => {
      this.view.scroll = scroller.scrollTop;
      this.tip.hidden = true;
      this.fit.redraw();
    });
    window.addEventListener("themechange", this.themed);
  }

  /** @param {MouseEvent} event */
  under(event) {
    const { width, height } = this.canvas.getBoundingClientRect();
    return this.painter.at(event.offsetX, event.offsetY, width, height, this.view);
  }

  /** @param {number} node */
  point(node) {
    if (node === this.view.hover) return;
    this.view.hover = node;
    this.tell();
    this.fit.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { layout, view } = this;
    const [outer, inner] = view.upwards ? ["ArrowDown", "ArrowUp"] : ["ArrowUp", "ArrowDown"];
    let node = -1;
    if (event.key === outer) node = layout.parent[view.current];
    else if (event.key === inner) node = layout.below(view.current);
    else if (event.key === "ArrowLeft") node = layout.beside(view.current, -1);
    else if (event.key === "ArrowRight") node = layout.beside(view.current, 1);
    else if (event.key === "Enter") this.zoom(view.current);
    else if (event.key === "Escape") this.zoom(Math.max(layout.parent[view.root], 0));
    else return;
    event.preventDefault();
    if (node >= 0) this.move(node);
  }

  /** Mark a node, and bring it into sight. @param {number} node */
  move(node) {
    this.view.current = node;
    this.view.hover = -1;
    if (!this.layout.path(node).includes(this.view.root)) this.zoom(node);
    const { scroller } = this;
    const height = scroller.clientHeight;
    const top = this.painter.top(this.layout.depth[node], this.view, height);
    if (top < 0) scroller.scrollTop += top;
    else if (top + ROW > height) scroller.scrollTop += top + ROW - height;
    this.tell();
    this.fit.redraw();
  }

  /** Say beside the mouse what is under it. @param {PointerEvent} event */
  placeTip(event) {
    const { tip, view } = this;
    tip.hidden = view.hover < 0;
    if (tip.hidden) return;
    tip.replaceChildren(...this.told(view.hover));
    const left = Math.min(event.clientX + TIP, window.innerWidth - tip.offsetWidth - 4);
    const below = event.clientY + TIP;
    const top = below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - TIP : below;
    tip.style.transform = `translate(${Math.round(Math.max(left, 0))}px, ${Math.round(top)}px)`;
  }

  /** Make a node as wide as the graph. @param {number} node */
  zoom(node) {
    this.tip.hidden = true;
    this.view.root = this.view.current = node;
    this.app.note({ at: node ? String(node) : "" });
    this.tell();
    this.fit.redraw();
  }

  /** @param {HTMLElement} button */
  turn(button) {
    this.view.upwards = !this.view.upwards;
    button.setAttribute("aria-pressed", String(this.view.upwards));
    this.app.note({ up: this.view.upwards ? "1" : "" });
    this.showEnd();
    this.fit.redraw();
  }

  /** Scroll to the root. */
  showEnd() {
    const { scroller } = this;
    scroller.scrollTop = this.view.upwards ? scroller.scrollHeight : 0;
    this.view.scroll = scroller.scrollTop;
  }

  /** @param {string} query */
  search(query) {
    this.app.note({ q: query });
    this.find(query);
    this.fit.redraw();
  }

  /** @param {string} query */
  find(query) {
    const wanted = query.trim().toLowerCase();
    this.view.found = null;
    this.hits.textContent = "";
    if (!wanted) return;
    const matches = Array.from({ length: this.textCount }, (_, code) => this.texts(code).toLowerCase().includes(wanted));
    const { found, hits, amount } = this.layout.search((code) => matches[code]);
    this.view.found = found;
    const whole = this.layout.total[0];
    this.hits.textContent = hits ? `${number(hits)} found: ${this.shown(amount)}, ${percent(amount, whole)}` : "nothing found";
  }

  /** Describe the current node in words. */
  tell() {
    const { view } = this;
    this.details.replaceChildren(...this.told(view.hover >= 0 ? view.hover : view.current));
    this.showCrumbs();
  }

  /** A node's name and numbers. @param {number} node */
  told(node) {
    const { layout, view } = this;
    const whole = layout.total[0];
    if (!whole) return [h("strong", null, `There is no ${this.scope()}.`)];
    const facts = [
      node ? `${this.shown(layout.total[node])} ${this.words}` : `${this.shown(whole)} in all: ${this.scope()}`,
      node ? `${percent(layout.total[node], whole)} of the ${this.scope()}` : "",
      view.root && node !== view.root ? `${percent(layout.total[node], layout.total[view.root])} of what is shown` : "",
      node ? `${this.shown(layout.own[node])} self` : "",
      layout.waited[node] ? `${this.shown(layout.waited[node])} waiting` : "",
    ];
    return [h("strong", null, this.texts(layout.text[node]).slice(0, 2000)), h("span", null, facts.filter(Boolean).join(" · "))];
  }

  /** The total that shares refer to. */
  scope() {
    const where = this.state.thread ? placeName(this.data, this.state.thread) : threadsOf(this.data).length > 1 ? "all threads" : "the program";
    const running = this.metric === "cpu_ns" && this.state.waiting !== "shown" && hasWaiting(this.data, this.name) ? "running " : "";
    return `${running}${this.words} of ${where} in ${this.when === "steps" ? "the steady steps" : "the whole run"}`;
  }

  showCrumbs() {
    if (this.crumbsOf === this.view.root) return;
    this.crumbsOf = this.view.root;
    const path = this.layout.path(this.view.root).reverse();
    // The ends of a deep stack are most informative.
    const shown = path.length > 8 ? [...path.slice(0, 2), -1, ...path.slice(-5)] : path;
    const items = shown.map((node) =>
      node < 0
        ? h("span", { class: "quiet" }, "…")
        : h("button", { onclick: () => this.zoom(node), "aria-current": node === this.view.root && "true", title: this.texts(this.layout.text[node]).slice(0, 400) }, this.texts(this.layout.text[node]).slice(0, 60)),
    );
    this.crumbs.replaceChildren(...items);
  }

  close() {
    this.fit.close();
    window.removeEventListener("themechange", this.themed);
  }
}

/** @param {Record<string, string>} state @param {string} key */
function without(state, key) {
  return Object.fromEntries(Object.entries(state).filter(([each]) => each !== key));
}
