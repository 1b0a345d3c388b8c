// Memory over time by category and by device; any moment shows what lives then, and who asked.

import { isTyping } from "stepscope/app.js";
import { h } from "stepscope/dom.js";
import { bytes, number, percent, time } from "stepscope/format.js";
import { Chart } from "stepscope/memory/chart.js";
import { blocksOf, levelsOf, liveAt, placeAt } from "stepscope/memory/levels.js";
import { groupings, momentOf, wasThere, wordsOf } from "stepscope/memory/moment.js";
import { Sites } from "stepscope/memory/sites.js";
import { showing } from "stepscope/memory/span.js";
import { Table } from "stepscope/table.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../app.js").State} State */
/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../memory/moment.js").Grouping} Grouping */
/** @typedef {{reserved_bytes: number, most_reserved_bytes: number, unused_bytes: number, savings: {id: string, bytes: number, text: string}[], unknown: string[]}} About */
/** @typedef {{name: string, about: About, peak: {time: number, bytes: number, site: number}}} Device */
/** @typedef {{name: string, colour: string}} Series */

const ALL = "all";
const RESERVED = "reserved";
// Lasting memory is at the bottom, changing memory on top, so that lower edges stay flat.
const ORDER = ["parameter", "optimizer_state", "input", "unknown", "gradient", "activation", "autograd_detail", "temporary"];

/** @type {import("../app.js").Page} */
export const page = {
  id: "memory",
  title: "Memory",
  available: (data) => data.has("memory.devices"),
  missing: {
    shows: "how much memory was in use at each moment, for what, and who asked for it",
    why: "Memory was not recorded.",
    option: "--memory",
    argument: "profile_memory=True",
  },
  keys: [
    ["w / s", "zoom in, out"],
    ["a / d", "move"],
    ["← / →", "previous / next change from the cursor"],
    ["Shift ← / →", "a twentieth of the chart back, forward"],
    ["p", "go to the peak"],
    ["f", "show all"],
    ["drag, scroll", "move, zoom"],
    ["Shift and drag", "zoom into an interval"],
  ],
  show: (root, data, state, app) => new MemoryPage(root, data, state, app).close,
};

class MemoryPage {
  /** @param {HTMLElement} root @param {Data} data @param {State} state @param {App} app */
  constructor(root, data, state, app) {
    this.data = data;
    this.state = state;
    this.app = app;
    this.blocks = blocksOf(data);
    this.sites = new Sites(data);
    /** @type {Device[]} */
    this.devices = data.value("memory.devices");
    /** @type {string[]} */
    this.categories = data.value("memory.categories");
    const named = this.devices.findIndex((device) => device.name === state.device);
    this.device = state.device === ALL ? -1 : Math.max(named, 0); // -1: all of them
    this.hidden = new Set((state.hide ?? "").split(",").filter(Boolean));
    const ids = groupings(this.sites).map(([id]) => id);
    /** @type {Grouping} */
    this.grouping = ids.find((id) => id === state.group) ?? ids[0];
    this.series = this.seriesOf();
    this.used = this.usedSeries();
    this.levels = this.summed();
    this.reserved = this.reservedByAllocator();
    if (state.hide === undefined && this.isFarAbove()) this.hidden.add(RESERVED);
    this.cursor = "at" in state ? Number(state.at) || 0 : this.peak().time;
    this.build(root);
    this.chart = this.charted();
    this.update();
    this.onKey = (/** @type {KeyboardEvent} */ event) => this.key(event);
    window.addEventListener("keydown", this.onKey);
    this.close = () => {
      window.removeEventListener("keydown", this.onKey);
      this.chart.close();
    };
  }

  /** @param {HTMLElement} root */
  build(root) {
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas", { class: "memory-chart", tabindex: 0, role: "slider", "aria-label": "Moment" })
    );
    this.legend = h("div", { class: "memory-legend", role: "group", "aria-label": "Areas" });
    this.moment = h("p", { class: "memory-moment", role: "status" });
    this.tip = h("span", { class: "quiet memory-tip" });
    this.table = h("div", { class: "memory-table" });
    this.details = h("div", { class: "memory-details", hidden: true });
    root.append(
      h("div", { class: "memory-tools" }, this.devicePicker(), this.peakText(), this.tip, ...this.buttons()),
      this.canvas,
      this.legend,
      this.about() ?? "",
      h("div", { class: "memory-tools" }, this.moment, this.groupPicker()),
      this.table,
      this.details,
    );
  }

  devicePicker() {
    const options = this.devices.map((device, i) => h("option", { value: i, selected: i === this.device }, device.name));
    if (this.devices.length > 1) options.push(h("option", { value: -1, selected: this.device < 0 }, "all devices"));
    const changed = (/** @type {Event} */ event) => {
      const device = Number(/** @type {HTMLSelectElement} */ (event.target).value);
      const { name } = this.devices[device] ?? { name: ALL };
      // Each device has its own peak, which is shown first.
      this.app.go("memory", { device: name, group: this.grouping });
    };
    return h("label", null, "Device ", h("select", { onchange: changed }, ...options));
  }

  groupPicker() {
    const options = groupings(this.sites).map(([id, title]) => h("option", { value: id, selected: id === this.grouping }, title));
    const changed = (/** @type {Event} */ event) => {
      this.grouping = /** @type {Grouping} */ (/** @type {HTMLSelectElement} */ (event.target).value);
      this.app.note({ group: this.grouping, sort: "", filter: "" });
      this.update();
    };
    return h("label", null, "Group by ", h("select", { onchange: changed }, ...options));
  }

  buttons() {
    return [
      h("button", { onclick: () => this.goToPeak(), title: "key p" }, "Go to peak"),
      h("button", { onclick: () => this.chart.zoom(0.5), "aria-label": "Zoom in", title: "key w" }, "+"),
      h("button", { onclick: () => this.chart.zoom(2), "aria-label": "Zoom out", title: "key s" }, "−"),
      h("button", { onclick: () => this.chart.show(this.limits()), title: "key f" }, "All"),
    ];
  }

  /** The peak of a device, or of them all together. */
  peak() {
    if (this.device >= 0) return this.devices[this.device].peak;
    const { times, total } = this.levels;
    let most = 0;
    for (let i = 0; i < total.length; i++) if (total[i] > total[most]) most = i;
    return { time: times[most] ?? 0, bytes: total[most] ?? 0, site: -1 };
  }

  peakText() {
    const { time: at, bytes: size, site } = this.peak();
    const where = site < 0 ? [] : [
      ` in ${this.sites.operatorText(site)}`,
      this.sites.module[site] ? ` of ${this.sites.moduleText(site)}` : "",
      this.sites.line[site] ? `, ${this.sites.lineText(site)}` : "",
    ];
    return h("span", { class: "memory-peak" }, h("strong", { title: `${number(size)} bytes` }, `Peak ${bytes(size)}`), ` at ${time(at)}${where.join("")}`);
  }

  /** What the allocator held at the peak, what would lower it, and what is unknown. */
  about() {
    const about = this.devices[this.device]?.about;
    if (!about) return null;
    const { reserved_bytes, most_reserved_bytes, unused_bytes, savings, unknown } = about;
    const atPeak = reserved_bytes
      ? `At the peak the allocator held ${bytes(reserved_bytes)}, ${bytes(unused_bytes)} (${percent(unused_bytes, reserved_bytes)}) of it unused; at most ${bytes(most_reserved_bytes)}.`
      : "";
    if (!atPeak && !savings.length && !unknown.length) return null;
    const items = savings.map(({ bytes: size, text }) => h("li", null, h("strong", null, bytes(size)), ` ${text}`));
    return h(
      "section",
      { class: "memory-about" },
      atPeak && h("p", null, atPeak),
      items.length > 0 && h("p", null, "What would lower it, each by itself:"),
      items.length > 0 && h("ul", null, ...items),
      ...unknown.map((line) => h("p", { class: "quiet" }, line)),
    );
  }

  limits() {
    return { from: 0, to: Math.max(this.blocks.end, 1) };
  }

  /** @returns {Series[]} */
  seriesOf() {
    const names = this.categories.map((name) => ({ name: wordsOf(name), colour: `--memory-${name}` }));
    if (this.device >= 0) return names;
    return this.devices.map((device, i) => ({ name: device.name, colour: names[i % names.length].colour }));
  }

  /** The series of a block, -1 if it is not shown. @param {number} block */
  seriesOfBlock(block) {
    const place = this.device < 0 ? this.blocks.device[block] : this.blocks.category[block];
    const isShown = this.device < 0 || this.blocks.device[block] === this.device;
    return isShown && !this.hidden.has(this.series[place].name) ? place : -1;
  }

  summed() {
    return levelsOf(this.blocks, this.series.length, (block) => this.seriesOfBlock(block));
  }

  /** What the chart draws, with the areas in order. */
  shown() {
    const places = [...this.used].sort((a, b) => a - b);
    if (this.device >= 0) places.sort((a, b) => ORDER.indexOf(this.categories[a]) - ORDER.indexOf(this.categories[b]));
    return {
      levels: { ...this.levels, series: places.map((i) => this.levels.series[i]) },
      colours: places.map((i) => this.series[i].colour),
      peak: this.isWhole() ? this.peak() : null,
      reserved: this.hasReserved() && !this.hidden.has(RESERVED) ? this.reserved : null,
    };
  }

  hasReserved() {
    return this.reserved.values.some((value) => value > 0);
  }

  /** Whether the reserved memory is so high that it would flatten everything else. */
  isFarAbove() {
    return this.reserved.values.some((value) => value > 2 * this.peak().bytes);
  }

  /** Whether no area is left out. */
  isWhole() {
    return !this.series.some(({ name }) => this.hidden.has(name));
  }

  /** The bytes that the device's allocator reserved over time. */
  reservedByAllocator() {
    const times = this.data.column("memory.told.time");
    const device = this.data.column("memory.told.device");
    const values = this.data.column("memory.told.reserved");
    const rows = [];
    for (let i = 0; i < times.length; i++) if (device[i] === this.device) rows.push(i);
    return { times: Float64Array.from(rows, (i) => times[i]), values: Float64Array.from(rows, (i) => values[i]) };
  }

  charted() {
    const chart = new Chart(/** @type {HTMLCanvasElement} */ (this.canvas), this.shown(), this.limits(), {
      pick: (at) => this.setCursor(at),
      moved: ({ from, to }) => {
        const all = from <= 0 && to >= this.limits().to;
        this.app.note({ from: all ? "" : String(Math.round(from)), to: all ? "" : String(Math.round(to)) });
      },
      hover: (at) => this.hover(at),
    });
    const [from, to] = [Number(this.state.from ?? NaN), Number(this.state.to ?? NaN)];
    if (to > from) chart.show({ from, to });
    return chart;
  }

  /** @param {number | null} at */
  hover(at) {
    const tip = /** @type {HTMLElement} */ (this.tip);
    tip.textContent = at === null ? "" : `${time(at)}: ${bytes(this.totalAt(at))}`;
  }

  /** @param {number} at */
  totalAt(at) {
    return this.levels.total[placeAt(this.levels.times, at)] ?? 0;
  }

  /** @param {number} at */
  setCursor(at) {
    this.cursor = Math.round(Math.min(Math.max(at, 0), this.limits().to));
    this.app.note({ at: String(this.cursor) });
    const span = showing(this.chart.span, this.cursor, this.limits());
    if (span !== this.chart.span) this.chart.show(span);
    this.update();
  }

  goToPeak() {
    this.setCursor(this.peak().time);
  }

  /** Show the moment of the cursor. */
  update() {
    this.chart.setCursor(this.cursor);
    const at = this.cursor;
    const live = liveAt(this.blocks, at, (block) => this.seriesOfBlock(block) >= 0);
    this.showLegend();
    this.showMoment(live);
    const { columns, rows, blockOf, unit } = momentOf(this.grouping, this.blocks, live, this.sites, this.categories);
    const table = new Table({
      label: "live allocations",
      columns,
      rows,
      unit,
      sort: "-bytes",
      state: this.app.state,
      note: (changes) => this.app.note(changes),
      pick: (row) => this.showDetails(blockOf(row)),
    });
    /** @type {HTMLElement} */ (this.table).replaceChildren(table.element);
    /** @type {HTMLElement} */ (this.details).hidden = true;
    const canvas = /** @type {HTMLElement} */ (this.canvas);
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(this.limits().to));
    canvas.setAttribute("aria-valuenow", String(at));
    canvas.setAttribute("aria-valuetext", `${time(at)}: ${bytes(this.totalAt(at))}`);
  }

  showLegend() {
    const place = placeAt(this.levels.times, this.cursor);
    const entries = [...this.used].sort((a, b) => a - b).map((i) => {
      const { name, colour } = this.series[i];
      return this.legendEntry(name, colour, this.levels.series[i][place] ?? 0);
    });
    const { times, values } = this.reserved;
    if (this.hasReserved()) entries.push(this.legendEntry(RESERVED, "", values[placeAt(times, this.cursor)] ?? 0));
    const legend = /** @type {HTMLElement} */ (this.legend);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.name;
    legend.replaceChildren(...entries);
    if (focused) /** @type {HTMLElement | null} */ (legend.querySelector(`[data-name="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {string} name @param {string} colour "": a dashed line @param {number} size bytes */
  legendEntry(name, colour, size) {
    const hidden = this.hidden.has(name);
    const swatch = h("span", { class: colour ? "memory-swatch" : "memory-swatch memory-dashed" });
    if (colour) swatch.style.background = `var(${colour})`;
    return h(
      "label",
      { title: colour ? null : "What the allocator holds, in use or not" },
      h("input", { type: "checkbox", "data-name": name, checked: !hidden, onchange: () => this.toggle(name) }),
      swatch,
      name,
      h("span", { class: "quiet" }, hidden && colour ? "hidden" : bytes(size)),
    );
  }

  /** The series that have blocks. */
  usedSeries() {
    const { device, category } = this.blocks;
    const used = new Set();
    for (let block = 0; block < device.length; block++) {
      if (this.device < 0) used.add(device[block]);
      else if (device[block] === this.device) used.add(category[block]);
    }
    return used;
  }

  /** @param {string} name */
  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.app.note({ hide: [...this.hidden].join(",") || "none" });
    this.levels = this.summed();
    this.chart.setShown(this.shown());
    this.update();
  }

  /** @param {number[]} live */
  showMoment(live) {
    const at = this.cursor;
    const total = this.totalAt(at);
    const words = [`${bytes(total)} in ${number(live.length)} allocation${live.length === 1 ? "" : "s"}`];
    const around = Math.max((this.chart.span.to - this.chart.span.from) / 20, 1000);
    const state = { from: String(Math.round(Math.max(at - around, 0))), to: String(Math.round(at + around)) };
    const moment = /** @type {HTMLElement} */ (this.moment);
    moment.replaceChildren(h("strong", null, `At ${time(at)}`), `: ${words.join(" · ")} `);
    if (this.app.has("timeline")) moment.append(h("a", { href: this.app.link("timeline", state) }, "Timeline at this moment"));
  }

  /** @param {number} block */
  showDetails(block) {
    const { start, life, size, site, category, end, slice } = this.blocks;
    const from = wasThere(this.blocks, block) ? "before the recording" : `at ${time(start[block])}`;
    const ends = start[block] + life[block];
    const until = ends > end ? "lives to the end of the recording" : `freed at ${time(ends)}, after ${time(life[block])}`;
    const frames = this.sites.frames(site[block]);
    const details = /** @type {HTMLElement} */ (this.details);
    const link = slice[block] > 0 && this.app.has("timeline");
    const asked = { sel: String(slice[block] - 1) };
    details.hidden = false;
    details.replaceChildren(
      h("strong", null, `The largest: ${bytes(size[block])}, ${wordsOf(this.categories[category[block]])}`),
      ` of ${this.sites.operatorText(site[block])}`,
      this.sites.module[site[block]] ? ` in ${this.sites.moduleText(site[block])}` : "",
      `, allocated ${from}, ${until}. `,
      link ? h("a", { href: this.app.link("timeline", asked) }, "Timeline at its allocation") : "",
      frames.length ? h("ol", { "aria-label": "Stack, the innermost frame first" }, ...frames.map((frame) => h("li", null, frame))) : "",
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    const { chart } = this;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "w") chart.zoom(0.7);
    else if (key === "s") chart.zoom(1 / 0.7);
    else if (key === "a") chart.pan(-0.15);
    else if (key === "d") chart.pan(0.15);
    else if (key === "p") this.goToPeak();
    else if (key === "f") chart.show(this.limits());
    else if (key === "ArrowLeft" || key === "ArrowRight") this.step(key === "ArrowLeft" ? -1 : 1, event.shiftKey);
    else return;
    event.preventDefault();
  }

  /** Move the cursor to the next change, or by a part of the chart. @param {-1 | 1} way @param {boolean} far */
  step(way, far) {
    const { times } = this.levels;
    const { from, to } = this.chart.span;
    if (far) return this.setCursor(this.cursor + (way * (to - from)) / 20);
    const place = placeAt(times, this.cursor);
    const next = way > 0 ? place + 1 : times[place] === this.cursor ? place - 1 : place;
    if (next in times) this.setCursor(times[next]);
  }
}
