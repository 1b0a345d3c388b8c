// The user's own files: what each line costs beside it, and what ran on it.

import { isTyping } from "stepscope/app.js";
import { h, select } from "stepscope/dom.js";
import { bytes, number, time } from "stepscope/format.js";
import { whenChoice } from "stepscope/scopes.js";
import { isPart, Lines, linesWith, textLines } from "stepscope/source/lines.js";
import { Table } from "stepscope/table.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../app.js").State} State */
/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../source/lines.js").File} File */
/** @typedef {import("../source/lines.js").Measure} Measure */

const DOING = ["Python", "native", "operator", "waiting"]; // doing.py's
const LONGEST = 2000; // characters of a line that are shown: what is longer was not typed
const MOST = 20_000; // lines of a file that are shown: each is elements

/** @type {import("../app.js").Page} */
export const page = {
  id: "source",
  title: "Source",
  available: (data) => data.has("source.files"),
  missing: {
    shows: "what each line of your own files costs",
    why: "No line of your own code is known in this recording.",
    option: "--stacks operators",
    argument: "with_stack=True",
  },
  keys: [
    ["↓ / ↑", "the next, previous line with a cost"],
    ["n / N", "the next, previous hit of the search"],
    ["h", "the most expensive line"],
  ],
  show: (root, data, state, app) => new SourcePage(root, data, state, app).close,
};

class SourcePage {
  /** @param {HTMLElement} root @param {Data} data @param {State} state @param {App} app */
  constructor(root, data, state, app) {
    this.data = data;
    this.app = app;
    /** @type {string[]} */
    this.times = data.value("source.times");
    this.when = this.times.includes(state.when) ? state.when : this.times[0];
    this.lines = new Lines(data, this.when);
    const measures = this.lines.measures().map(([id]) => id);
    /** @type {Measure} */
    this.measure = measures.find((id) => id === state.by) ?? measures[0];
    this.query = state.q ?? "";
    this.files = this.lines.files(this.measure);
    this.file = this.files.find((file) => file.name === state.file) ?? this.files[0];
    this.row = this.lines.rowOf(this.file, Number(state.line));
    if (this.row < 0) this.row = this.hottest();
    /** @type {string[]} */
    this.text = [];
    /** @type {number[]} */
    this.hits = [];
    this.list = h("ul", { class: "source-files", "aria-label": "Files" });
    this.code = h("div", { class: "source-code", tabindex: 0, role: "region", "aria-label": "Code" });
    this.note = h("p", { class: "source-note quiet" });
    this.details = h("div", { class: "source-line" });
    root.append(
      this.tools(),
      h(
        "div",
        { class: "source-body" },
        this.list,
        h("div", { class: "source-main" }, this.note, this.code, this.details),
      ),
    );
    this.code.addEventListener("click", (event) => this.clicked(event));
    this.show();
    this.reveal();
    this.onKey = (/** @type {KeyboardEvent} */ event) => this.key(event);
    window.addEventListener("keydown", this.onKey);
    this.close = () => window.removeEventListener("keydown", this.onKey);
  }

  tools() {
    const choices = this.lines.measures().map(([id, title]) => /** @type {[string, string]} */ ([id, title.toLowerCase()]));
    const measured = (/** @type {string} */ measure) => {
      this.measure = /** @type {Measure} */ (measure);
      this.app.note({ by: measure });
      this.files = this.lines.files(this.measure);
      this.show();
    };
    const timed = (/** @type {string} */ when) => this.app.go("source", { ...this.app.state, when });
    const input = /** @type {HTMLInputElement} */ (
      h("input", {
        type: "search",
        placeholder: "Search the code (key /)",
        "aria-label": "Search the code",
        oninput: () => this.search(input.value),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Enter") this.nextHit(event.shiftKey ? -1 : 1);
        },
      })
    );
    input.value = this.query;
    this.count = h("span", { class: "quiet", role: "status" });
    return h("div", { class: "source-tools choices" }, select("Rank by", choices, this.measure, measured), whenChoice(this.times, this.when, timed), input, this.count);
  }

  show() {
    this.showFiles();
    this.showCode();
    this.search(this.query);
    this.showLine();
  }

  /** A cost as text. @param {number} value @param {Measure} [measure] */
  cost(value, measure = this.measure) {
    if (!value) return "";
    return measure.startsWith("bytes") ? bytes(value) : time(value);
  }

  /** The most expensive line of the file, -1 if none costs anything. */
  hottest() {
    const [row] = this.lines.hottest(this.file, this.measure);
    return row !== undefined && this.value(row) > 0 ? row : -1;
  }

  showFiles() {
    this.list.hidden = this.files.length < 2;
    const most = this.files[0].cost || 1;
    const items = this.files.map((file) => {
      const button = h(
        "button",
        { "aria-current": file.file === this.file.file && "true", title: file.name.slice(0, 1000), onclick: () => this.open(file) },
        // The marks keep the path's order in a box that is cut at its beginning.
        h("span", { class: "source-name" }, h("bdi", null, file.name.slice(-400))),
        h("span", { class: "quiet" }, this.cost(file.cost)),
      );
      button.style.setProperty("--share", `${((100 * file.cost) / most).toFixed(1)}%`);
      return h("li", null, button);
    });
    this.list.replaceChildren(...items);
  }

  /** @param {File} file */
  open(file) {
    this.file = file;
    this.row = this.hottest();
    this.app.note({ file: file.name, line: "" });
    this.show();
    this.reveal();
    /** @type {HTMLElement | null} */ (this.list.querySelector("[aria-current]"))?.focus();
  }

  showCode() {
    const text = this.data.value("source.texts")[this.file.file];
    this.text = text === null ? [] : textLines(text).slice(0, MOST);
    this.note.textContent = this.noteOf(text);
    const { first, last } = this.file;
    const { line } = this.lines;
    const rowOf = new Map();
    for (let row = first; row < last; row++) rowOf.set(line[row], row);
    const numbers = this.text.map((_, i) => i + 1);
    // Module code without a known line, in traces that only tell where functions begin.
    if (rowOf.has(0)) numbers.unshift(0);
    // For a missing or shortened file, show only the lines that ran.
    for (let row = first; row < last; row++) if (line[row] > this.text.length) numbers.push(line[row]);
    const beside = this.lines.beside(this.measure);
    const mostOf = (/** @type {Measure} */ id) => this.lines.values[id][this.lines.hottest(this.file, id)[0]] || 1;
    // The parts of the self time share its scale, so that they add up to its bar.
    const costs = beside.map(([id]) => ({ id, most: mostOf(isPart(id) ? "self" : id) }));
    const rows = numbers.map((line) => this.codeRow(line, rowOf.get(line) ?? -1, costs));
    const titles = beside.map(([id, title, hint]) => h("th", { scope: "col", title: hint, class: isPart(id) && "part-cost" }, title));
    const counted = this.lines.calls.length > 0;
    const others = [...(counted ? ["Calls"] : []), "Line", this.text.length ? "Code" : "Function"].map((title) => h("th", { scope: "col" }, title));
    this.code.replaceChildren(
      h(
        "table",
        { "aria-label": `Lines of ${this.file.name.slice(-200)}` },
        h("thead", null, h("tr", null, ...titles, ...others)),
        h("tbody", null, ...rows),
      ),
    );
  }

  /** @param {string | null} text */
  noteOf(text) {
    const newer = this.data.value("source.newer")[this.file.file];
    const where = this.data.value("source.by_function") ? " The trace records where functions begin, not which of their lines ran." : "";
    if (newer) return "This file was changed after the recording: its lines may have moved.";
    if (text !== null) return where.trim();
    if (!this.data.value("source.with_code")) return "The report was written without code: only line numbers are known." + where;
    if (this.data.value("source.withheld")?.[this.file.file])
      return "The file lies outside of the folders whose text the report may show (--source FOLDER adds one): only line numbers are known." + where;
    return "The file was not found where the report was written, or is too large: only line numbers are known." + where;
  }

  /** @param {number} row */
  value(row) {
    return this.lines.values[this.measure][row];
  }

  /** @param {number} line @param {number} row of the lines that cost something, -1 @param {{id: Measure, most: number}[]} costs */
  codeRow(line, row, costs) {
    const hasCost = row >= 0;
    const text = line ? (this.text[line - 1] ?? `${this.lines.functions[row]}`) : "(module level: which line is not recorded)";
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
    const cells = costs.map(({ id, most }) => {
      const value = hasCost ? this.lines.values[id][row] : 0;
      const cell = h("td", { class: isPart(id) ? "cost part-cost" : "cost" }, this.cost(value, id));
      if (value) cell.style.setProperty("--share", `${((100 * value) / most).toFixed(1)}%`);
      return cell;
    });
    const calls = hasCost && this.lines.calls[row] ? number(this.lines.calls[row]) : "";
    return h(
      "tr",
      { "data-line": line, "data-row": hasCost && row, tabindex: hasCost && -1 },
      ...cells,
      this.lines.calls.length > 0 && h("td", null, calls),
      h("td", { class: "number" }, line || ""),
      h("td", { class: "text" }, short),
    );
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("tr")?.dataset.row;
    if (row !== undefined) this.choose(Number(row));
  }

  /** @param {number} row */
  choose(row) {
    this.row = row;
    this.app.note({ file: this.file.name, line: String(this.lines.line[row]) });
    this.showLine();
  }

  /** Scroll to the chosen line. */
  reveal() {
    this.code.querySelector("tr[aria-current]")?.scrollIntoView({ block: "center" });
  }

  /** Mark the chosen line, and show what ran on it. */
  showLine() {
    this.code.querySelector("tr[aria-current]")?.removeAttribute("aria-current");
    this.details.replaceChildren();
    if (this.row < 0) {
      this.details.append(h("p", { class: "quiet source-note" }, `Nothing here took any time in the ${this.when === "steps" ? "steady steps" : "whole run"}.`));
      return;
    }
    this.code.querySelector(`tr[data-row="${this.row}"]`)?.setAttribute("aria-current", "true");
    const { values } = this.lines;
    const costs = this.lines
      .measures()
      .filter(([id]) => values[id][this.row])
      .map(([id, title]) => `${title.toLowerCase().replace("python", "Python")} ${this.cost(values[id][this.row], id)}`);
    const name = `${this.file.name.slice(-200)}:${this.lines.line[this.row]}`;
    const has = (/** @type {{first: number, last: number}} */ { first, last }) => last > first;
    this.details.append(
      h("p", { class: "source-note" }, h("strong", null, name), ` ${this.lines.functions[this.row]}: ${costs.join(" · ")}`),
      h(
        "div",
        { class: "source-tables" },
        has(this.lines.partsOf(this.row)) && this.partTable().element,
        has(this.lines.operators(this.row)) && this.operatorTable().element,
      ),
    );
  }

  /** What ran on the line, by its samples. */
  partTable() {
    const { first, last } = this.lines.partsOf(this.row);
    const column = (/** @type {string} */ name) => this.data.column(`${this.lines.parts}.${name}`);
    const [names, doing, self] = [column("name"), column("doing"), column("self")];
    return new Table({
      label: "what ran on the line",
      columns: [
        { key: "name", title: "What ran on this line", unit: "text" },
        { key: "doing", title: "Kind", unit: "text" },
        { key: "self", title: "Time", unit: "time", bar: true },
      ],
      rows: {
        length: last - first,
        value: (key, row) => (key === "self" ? self[first + row] : key === "doing" ? DOING[doing[first + row]] : this.data.text(names[first + row])),
      },
      sort: "-self",
      search: false,
      unit: "names",
    });
  }

  operatorTable() {
    const { first, last } = this.lines.operators(this.row);
    const column = (/** @type {string} */ name) => this.data.column(`source.operators.${name}`);
    const names = column("name");
    const has = (/** @type {string} */ name) => column(name).some((value) => value > 0);
    // Samples have the times; events add what samples cannot know.
    const sampled = this.data.value("source.sampled");
    /** @type {(import("../lib/rows.js").Column | false)[]} */
    const columns = [
      { key: "name", title: "Operator", unit: "text" },
      !sampled && { key: "self", title: "Self time", unit: "time", bar: true, hint: "In the whole run; the backward pass counts for the line of the forward operator" },
      has("device") && { key: "device", title: "Device", unit: "time", bar: true },
      has("bytes") && { key: "bytes", title: "Allocated", unit: "bytes", bar: true },
      { key: "calls", title: "Calls", unit: "number" },
    ];
    return new Table({
      label: "operators of the line",
      columns: /** @type {import("../lib/rows.js").Column[]} */ (columns.filter(Boolean)),
      rows: {
        length: last - first,
        value: (key, row) => (key === "name" ? this.data.text(names[first + row]) : column(key)[first + row]),
      },
      sort: this.measure.startsWith("bytes") ? "-bytes" : this.measure.startsWith("device") ? "-device" : sampled ? "-calls" : "-self",
      search: false,
      unit: "operators",
      pick: this.app.has("timeline") ? (row) => this.app.go("timeline", { q: this.data.text(names[first + row]) }) : undefined,
    });
  }

  /** @param {string} query */
  search(query) {
    this.query = query;
    this.app.note({ q: query });
    this.hits = linesWith(this.text, query);
    const hits = new Set(this.hits.map(String));
    for (const tr of this.code.querySelectorAll("tbody tr")) {
      tr.classList.toggle("found", hits.has(/** @type {HTMLElement} */ (tr).dataset.line ?? ""));
    }
    /** @type {HTMLElement} */ (this.count).textContent = query ? `${number(this.hits.length)} lines (key n: next)` : "";
    this.hit = -1;
    if (query) this.nextHit(1);
  }

  /** @param {-1 | 1} way */
  nextHit(way) {
    if (!this.hits.length) return;
    this.hit = ((this.hit ?? -1) + way + this.hits.length) % this.hits.length;
    this.code.querySelector(`tr[data-line="${this.hits[this.hit]}"]`)?.scrollIntoView({ block: "center" });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    if (event.key === "ArrowDown") this.step(1);
    else if (event.key === "ArrowUp") this.step(-1);
    else if (event.key === "n") this.nextHit(1);
    else if (event.key === "N") this.nextHit(-1);
    else if (event.key === "h" && this.hottest() >= 0) this.goTo(this.hottest());
    else return;
    event.preventDefault();
  }

  /** Go to the next line with a cost. @param {-1 | 1} way */
  step(way) {
    const { first, last } = this.file;
    let row = this.row < 0 ? (way > 0 ? first - 1 : last) : this.row;
    do row += way;
    while (row >= first && row < last && !this.value(row));
    if (row >= first && row < last) this.goTo(row);
  }

  /** Choose a line, and bring it into sight. @param {number} row */
  goTo(row) {
    this.choose(row);
    this.code.querySelector("tr[aria-current]")?.scrollIntoView({ block: "nearest" });
  }
}
