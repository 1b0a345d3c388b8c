// A table that sorts, filters and can be walked with the keyboard; rows may form a tree.

import { h } from "stepscope/dom.js";
import { number, percent, rulesOf, scaled, withUnit } from "stepscope/format.js";
import { comparing, csv, flattened, matching, parentsOf, sortOf, totalOf } from "stepscope/lib/rows.js";

/** @typedef {import("./lib/rows.js").Column} Column */
/** @typedef {import("./lib/rows.js").Rows} Rows */
/**
 * @typedef {object} Options
 * @property {string} label what the table holds, for the search field and for screen readers
 * @property {Column[]} columns the first one names the row
 * @property {Rows} rows
 * @property {string} sort such as "-self_ns": descending by the column with that key
 * @property {Record<string, string>} [state] of the page: "sort", "filter" and "open" are ours
 * @property {(changes: Record<string, string>) => void} [note] keeps a change of the state
 * @property {string} [prefix] before the names in the state, where a page has several tables
 * @property {(row: number) => void} [pick] a row was clicked, or Enter pressed on it
 * @property {number} [picked] the row that is picked at first
 * @property {boolean} [search] with a search field, the default
 * @property {boolean} [bars] without: no bars, whatever the columns say
 * @property {number} [limit] how many rows to show at first
 * @property {string} [unit] what a row is, "operators"
 * @property {number} [levels] of a tree: how many are open at first
 */

const STEP = 200; // rows that one "show more" adds: few enough for a frame or two
const LONGEST = 400; // characters of a cell; the details show the whole text

/** Units that are written otherwise than their scales say. @type {Record<string, (value: any) => string>} */
const SHOWN = {
  number,
  percent: (value) => percent(value, 1),
  text: String,
  bandwidth: (value) => (value ? withUnit(value, rulesOf("bandwidth")) : "–"),
  flops: (value) => (value ? scaled(value) : "–"),
  "flops/s": (value) => (value ? scaled(value, "FLOP/s") : "–"),
  ratio: (value) => (value >= 100 ? number(value) : String(Number(value.toPrecision(3)))),
};

/** A value as the table shows it. @param {Column} column @param {number | string} value */
export function shown({ unit }, value) {
  if (typeof value === "number" && Number.isNaN(value)) return "–";
  const show = typeof unit === "string" && SHOWN[unit];
  return show ? show(value) : withUnit(Number(value), rulesOf(unit)).trimEnd();
}

export class Table {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    const state = options.state ?? {};
    const prefix = options.prefix ?? "";
    this.sort = sortOf(state[`${prefix}sort`] ?? "", options.columns) ?? sortOf(options.sort, options.columns);
    this.query = state[`${prefix}filter`] ?? "";
    this.limit = options.limit ?? STEP;
    this.parents = options.rows.depth ? parentsOf(options.rows.depth) : null;
    /** @type {Set<number>} rows of a tree whose children are shown */
    this.open = new Set(this.firstOpen(state[`${prefix}open`]));
    /** @type {number[]} rows in the order shown, all of them */
    this.order = [];
    this.picked = options.picked ?? -1;
    this.active = this.picked; // the row that has the focus when the table has it
    /** @type {Map<number, number[]>} */
    this.children = new Map();
    this.texts = options.columns.filter((column) => column.unit === "text").map((column) => column.key);
    this.totals = new Map(options.columns.map((column) => [column.key, this.whole(column)]));
    this.head = h("thead", null);
    this.body = h("tbody", {
      onclick: (/** @type {MouseEvent} */ event) => this.clicked(event),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
    });
    this.count = h("span", { class: "quiet", role: "status" });
    this.more = h("div", { class: "table-more" });
    this.element = h(
      "div",
      { class: "table" },
      this.tools(),
      h(
        "div",
        { class: "table-scroll" },
        h("table", { "aria-label": options.label, role: this.parents && "treegrid" }, this.head, this.body),
        this.more,
      ),
    );
    this.update();
  }

  /** The filter, the count and the copy button. */
  tools() {
    const { label, search = true, columns, rows } = this.options;
    if (!search) return null;
    const input = /** @type {HTMLInputElement} */ (
      h("input", {
        type: "search",
        placeholder: "Filter (key /)",
        "aria-label": `Filter ${label}`,
        oninput: () => this.filter(input.value),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          if (event.key === "ArrowDown" && this.order.length) {
            this.focus(0);
            event.preventDefault();
          }
        },
      })
    );
    input.value = this.query;
    const copy = h("button", { onclick: () => copied(csv(columns, rows, this.order), copy) }, "Copy CSV");
    return h("div", { class: "table-tools" }, input, this.count, copy);
  }

  /** Show the rows that hold all words of a text. @param {string} query */
  filter(query) {
    this.query = query;
    this.limit = this.options.limit ?? STEP;
    this.note({ filter: query });
    this.update();
  }

  /** @param {string} key */
  sortBy(key) {
    const column = /** @type {Column} */ (this.options.columns.find((each) => each.key === key));
    const again = this.sort?.key === key;
    // The first click sorts numbers from the largest, texts alphabetically.
    const descending = again ? !this.sort?.descending : column.unit !== "text";
    this.sort = { key, descending };
    this.limit = this.options.limit ?? STEP;
    this.note({ sort: `${descending ? "-" : ""}${key}` });
    this.update();
    /** @type {HTMLElement | null} */ (this.head.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus();
  }

  /** @param {Record<string, string>} changes */
  note(changes) {
    const prefix = this.options.prefix ?? "";
    const named = Object.entries(changes).map(([key, value]) => [`${prefix}${key}`, value]);
    this.options.note?.(Object.fromEntries(named));
  }

  /** Order and draw anew. */
  update() {
    const { rows } = this.options;
    const compare = this.sort ? comparing(rows, this.sort.key, this.sort.descending) : (/** @type {number} */ a, /** @type {number} */ b) => a - b;
    const wanted = matching(rows, this.query, this.texts);
    if (this.parents) {
      // A filter opens all rows, so that matches are visible.
      const open = this.query ? () => true : (/** @type {number} */ row) => this.open.has(row);
      const flat = flattened(this.parents, compare, wanted, open);
      [this.order, this.children] = [flat.shown, flat.children];
    } else {
      this.order = [];
      for (let row = 0; row < rows.length; row++) if (wanted(row)) this.order.push(row);
      this.order.sort(compare);
    }
    this.showHead();
    this.showRows();
  }

  showHead() {
    const headings = this.options.columns.map((column) => {
      const sorted = this.sort?.key === column.key && (this.sort.descending ? "descending" : "ascending");
      return h(
        "th",
        { scope: "col", "aria-sort": sorted, class: sideOf(column) },
        h("button", { "data-key": column.key, title: column.hint, onclick: () => this.sortBy(column.key) }, column.title),
      );
    });
    this.head.replaceChildren(h("tr", null, ...headings));
  }

  showRows() {
    const { rows, unit = "rows" } = this.options;
    const visible = this.order.slice(0, this.limit);
    if (!visible.includes(this.active)) this.active = visible[0] ?? -1;
    this.body.replaceChildren(...visible.map((row) => this.row(row)));
    const all = this.parents ? rows.length : this.order.length;
    const few = this.query && !this.parents ? `${number(all)} of ${number(rows.length)}` : number(all);
    this.count.textContent = `${few} ${unit}`;
    this.offerMore();
  }

  offerMore() {
    const hidden = this.order.length - this.body.children.length;
    this.more.replaceChildren();
    if (hidden > 0) {
      this.more.append(
        h("button", { onclick: () => this.showMore() }, `Show ${number(Math.min(STEP, hidden))} more`),
        h("span", { class: "quiet" }, ` ${number(hidden)} left`),
      );
    } else if (!this.order.length) {
      const why = this.query ? `Nothing matches “${this.query.slice(0, 100)}”.` : "Nothing here.";
      this.more.append(h("p", { class: "quiet" }, why));
    }
  }

  /** Append more rows. */
  showMore() {
    const first = this.limit;
    this.limit += STEP;
    this.body.append(...this.order.slice(first, this.limit).map((row) => this.row(row)));
    this.offerMore();
    this.focus(first);
  }

  /** @param {number} row */
  row(row) {
    const { columns, pick } = this.options;
    const inner = this.children.get(row);
    const tree = this.parents && this.options.rows.depth;
    return h(
      "tr",
      {
        "data-row": row,
        tabindex: row === this.active ? 0 : -1,
        class: pick && "pickable",
        "aria-current": row === this.picked && "true",
        "aria-level": tree && tree[row] + 1,
        "aria-expanded": tree && inner && String(this.isOpen(row)),
      },
      ...columns.map((column, i) => this.cell(column, row, i === 0)),
    );
  }

  /** @param {Column} column @param {number} row @param {boolean} first */
  cell(column, row, first) {
    const value = this.options.rows.value(column.key, row);
    const text = shown(column, value);
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
    const line = column.separator ? short.replaceAll("\n", column.separator) : short;
    const whole = this.totals.get(column.key);
    const share = whole ? Math.min(Math.max(Number(value) / whole, 0), 1) : 0;
    const depth = this.options.rows.depth;
    const cell = h(
      first ? "th" : "td",
      {
        scope: first && "row",
        class: `${sideOf(column)}${share ? " bar" : ""}${value === 0 ? " quiet" : ""}`,
        title: column.unit === "text" && text.length > 24 && short,
      },
      first && depth && this.twisty(row),
      line,
    );
    if (share) cell.style.setProperty("--share", `${(100 * share).toFixed(2)}%`);
    if (first && depth) cell.style.setProperty("--depth", String(depth[row]));
    return cell;
  }

  /** The mark that opens and closes a row; keys are handled by the row. @param {number} row */
  twisty(row) {
    const sign = !this.children.has(row) ? "" : this.isOpen(row) ? "▾" : "▸";
    return h("span", { class: "twisty", "aria-hidden": "true" }, sign);
  }

  /** @param {number} row */
  isOpen(row) {
    return Boolean(this.query) || this.open.has(row);
  }

  /** @param {number} row @param {boolean} [wanted] */
  toggle(row, wanted = !this.open.has(row)) {
    if (!this.children.has(row) || this.query) return;
    if (wanted) this.open.add(row);
    else this.open.delete(row);
    this.note({ open: [...this.open].sort((a, b) => a - b).join(".") || "none" });
    this.update();
    this.focus(this.order.indexOf(row));
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const row = Number(target.closest("tr")?.dataset.row);
    if (target.closest(".twisty")) this.toggle(row);
    else this.choose(row);
  }

  /** @param {number} row */
  choose(row) {
    this.picked = this.active = row;
    for (const tr of this.body.querySelectorAll("tr")) {
      const here = Number(tr.dataset.row) === row;
      tr.tabIndex = here ? 0 : -1;
      if (here && this.options.pick) tr.setAttribute("aria-current", "true");
      else tr.removeAttribute("aria-current");
    }
    this.options.pick?.(row);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.active;
    const at = this.order.indexOf(row);
    const places = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.body.children.length - 1, PageDown: at + 20, PageUp: at - 20 };
    if (event.key in places) this.focus(places[/** @type {keyof typeof places} */ (event.key)]);
    else if (event.key === "Enter") this.choose(row);
    else if (event.key === "ArrowRight" && this.parents) this.toggle(row, true);
    else if (event.key === "ArrowLeft" && this.parents) this.closeOrLeave(row);
    else return;
    event.preventDefault();
  }

  /** @param {number} row */
  closeOrLeave(row) {
    if (this.open.has(row) && this.children.has(row)) this.toggle(row, false);
    else this.focus(this.order.indexOf(this.parents?.[row] ?? -1));
  }

  /** Put the focus back on the row that had it. */
  focusActive() {
    this.focus(this.order.indexOf(this.active));
  }

  /** Put the focus on a row that is shown. @param {number} place */
  focus(place) {
    const last = this.body.children.length - 1;
    const tr = /** @type {HTMLElement | undefined} */ (this.body.children[Math.min(Math.max(place, 0), last)]);
    if (!tr) return;
    /** @type {HTMLElement | null} */ (this.body.querySelector('tr[tabindex="0"]'))?.setAttribute("tabindex", "-1");
    this.active = Number(tr.dataset.row);
    tr.tabIndex = 0;
    tr.focus();
  }

  /** @param {string} [kept] rows that were open, as the state has them */
  firstOpen(kept) {
    const depth = this.options.rows.depth;
    if (!depth) return [];
    if (kept) return kept.split(".").map(Number).filter((row) => row in depth);
    const levels = this.options.levels ?? 1;
    return Array.from({ length: depth.length }, (_, row) => row).filter((row) => depth[row] < levels);
  }

  /** What a column's bars are shares of; 0: no bars. @param {Column} column */
  whole(column) {
    if (this.options.bars === false || !column.bar) return 0;
    if (column.unit === "percent") return 1;
    return typeof column.bar === "number" ? column.bar : totalOf(this.options.rows, column.key);
  }
}

/** @param {Column} column */
function sideOf(column) {
  return column.align ?? (column.unit === "text" ? "left" : "right");
}

/** Put a text on the clipboard and say so on the button. @param {string} text @param {HTMLElement} button */
export async function copied(text, button) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch (error) {
    button.textContent = "Blocked by the browser";
    button.title = String(error);
  }
  setTimeout(() => (button.textContent = was), 2000);
}
