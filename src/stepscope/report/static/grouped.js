// A page with one big table: what to group by, a filter by kind, and the details of a row.

import { h } from "stepscope/dom.js";
import { columnsOf, hasRows, rowsOf, rowsWith, subset } from "stepscope/lib/columns.js";
import { shown, Table } from "stepscope/table.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {import("./app.js").App} App */
/** @typedef {import("./lib/rows.js").Column} Column */
/** @typedef {import("./lib/rows.js").Rows} Rows */
/**
 * @typedef {object} Config
 * @property {string} table in the data: its groupings are `${table}.name` and so on
 * @property {string} unit what is in it, "operators"
 * @property {Column[]} columns of all groupings
 * @property {string} sort by default
 * @property {string} [kind] of the rows that are shown at first; without, there is no such choice
 * @property {string} amount the column by which details order what they list
 */

/** @type {Record<string, {title: string, choice: string, list: string}>} */
const GROUPINGS = {
  name: { title: "Name", choice: "name", list: "" },
  operator: { title: "Launched by", choice: "launching operator", list: "Launched by" },
  shapes: { title: "Input shapes", choice: "input shapes", list: "Input shapes" },
  stack: { title: "Python stack", choice: "Python stack", list: "Called from" },
  module: { title: "Module", choice: "module", list: "Modules" },
};
const ALL = "all";
const LISTED = 6; // groups that the details list of each kind

/** The column that a grouping adds. @param {string} grouping @returns {Column} */
const groupColumn = (grouping) => ({ key: grouping, title: GROUPINGS[grouping].title, unit: "text", separator: " ← " });

/** What can be grouped by. @param {Data} data @param {Config} config @returns {string[]} */
const groupingsOf = (data, config) => data.value(`${config.table}.groupings`) ?? [];

/**
 * Fill a page.
 * @param {HTMLElement} root
 * @param {Data} data
 * @param {Record<string, string>} state "by", "kind", "row", and those of the table
 * @param {App} app
 * @param {Config} config
 * @returns {() => void} what leaving the page needs
 */
export function showGrouped(root, data, state, app, config) {
  const by = groupingsOf(data, config).includes(state.by) ? state.by : "name";
  const name = `${config.table}.${by}`;
  const rows = rowsOf(data, name);
  const kinds = config.kind ? distinct(rows, "kind") : [];
  const kind = kindOf(state.kind, kinds, config);
  const picked = kind === ALL ? rowNumbers(rows.length) : rowsWith(rows, "kind", kind);
  const columns = columnsFor(data, name, by, kind, config);
  const panel = h("aside", { class: "details", "aria-label": "Details", hidden: true });
  const table = new Table({
    label: config.unit,
    unit: by !== "name" ? "groups" : !config.kind ? config.unit : kind === ALL ? "names" : plural(kind),
    columns,
    rows: subset(rows, picked),
    sort: config.sort,
    state,
    note: (changes) => app.note(changes),
    picked: picked.indexOf(Number(state.row ?? -1)),
    pick(row) {
      app.note({ row: String(picked[row]) });
      showDetails(panel, data, rows, picked[row], columns, app, config, close);
    },
  });
  function close() {
    if (panel.hidden) return;
    panel.hidden = true;
    app.note({ row: "" });
    table.focusActive();
  }
  /** @param {KeyboardEvent} event */
  const onkey = (event) => event.key === "Escape" && close();
  root.addEventListener("keydown", onkey);
  /** @param {Record<string, string>} changes */
  const change = (changes) => app.go(app.id, cleaned({ ...app.state, row: "", ...changes }));
  const choices = h(
    "div",
    { class: "choices" },
    select("Group by", groupingsOf(data, config).map((key) => [key, GROUPINGS[key].choice]), by, (value) =>
      change({ by: value === "name" ? "" : value }),
    ),
    kinds.length > 1 &&
      select("Show", [...kinds.map((each) => /** @type {[string, string]} */ ([each, plural(each)])), [ALL, "everything"]], kind, (value) =>
        change({ kind: value }),
      ),
  );
  root.append(choices, h("div", { class: "with-details" }, table.element, panel));
  if (table.picked >= 0) showDetails(panel, data, rows, picked[table.picked], columns, app, config, close);
  return () => root.removeEventListener("keydown", onkey);
}

/**
 * The columns of a grouping, without those that would say the same in every row.
 * @param {Data} data @param {string} name @param {string} by @param {string} kind @param {Config} config
 */
function columnsFor(data, name, by, kind, config) {
  const [first, ...others] = columnsOf(data, name, config.columns);
  const rest = others.filter(({ key }) => key !== by && (key !== "kind" || !config.kind || kind === ALL));
  return by === "name" ? [first, ...rest] : [first, groupColumn(by), ...rest];
}

/**
 * @param {HTMLElement} panel
 * @param {Data} data
 * @param {Rows} rows
 * @param {number} row
 * @param {Column[]} columns
 * @param {App} app
 * @param {Config} config
 * @param {() => void} close
 */
function showDetails(panel, data, rows, row, columns, app, config, close) {
  const name = String(rows.value(columns[0].key, row));
  const facts = columns.slice(1).flatMap((column) => {
    const text = shown(column, rows.value(column.key, row));
    return text ? [h("dt", { title: column.hint }, column.title), h("dd", { class: column.unit === "text" ? "text" : "" }, text)] : [];
  });
  const links = [
    app.has("timeline") && h("a", { href: app.link("timeline", { q: name }) }, "Find in the timeline"),
    app.has("flame") && h("a", { href: app.link("flame", { q: name }) }, "Find in the flame graph"),
  ];
  const lists = groupingsOf(data, config).slice(1).map((grouping) => list(data, grouping, name, columns, config));
  panel.replaceChildren(
    h("button", { class: "close", onclick: close, "aria-label": "Close the details", title: "Close (Escape)" }, "×"),
    h("h2", null, name),
    h("p", { class: "links" }, ...links.filter(Boolean)),
    h("dl", null, ...facts),
    h("div", null, ...lists),
  );
  panel.hidden = false;
  panel.scrollTop = 0;
}

/**
 * What tells the calls of one name apart, the largest first.
 * @param {Data} data
 * @param {string} grouping
 * @param {string} name
 * @param {Column[]} columns
 * @param {Config} config
 */
function list(data, grouping, name, columns, config) {
  const table = `${config.table}.${grouping}`;
  if (!hasRows(data, table)) return null;
  const rows = rowsOf(data, table);
  const found = rowsWith(rows, "name", name).sort(
    (a, b) => Number(rows.value(config.amount, b)) - Number(rows.value(config.amount, a)),
  );
  const amount = columns.find((column) => column.key === config.amount);
  if (!found.length || !amount || found.every((row) => !rows.value(grouping, row))) return null;
  const items = found.slice(0, LISTED).map((row) =>
    h(
      "li",
      null,
      h("span", { class: "amount" }, `${shown(amount, rows.value(amount.key, row))} · ${rows.value("count", row)}×`),
      h("span", { class: "text" }, String(rows.value(grouping, row)) || "(none)"),
    ),
  );
  const left = found.length - items.length;
  return h("section", null, h("h3", null, GROUPINGS[grouping].list), h("ul", null, ...items), left > 0 && h("p", { class: "quiet" }, `and ${left} more`));
}

/**
 * A labelled choice.
 * @param {string} label
 * @param {[string, string][]} choices value and text
 * @param {string} chosen
 * @param {(value: string) => void} change
 */
export function select(label, choices, chosen, change) {
  const options = choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const element = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => change(element.value) }, ...options));
  return h("label", null, `${label} `, element);
}

/** @param {string | undefined} asked @param {string[]} kinds @param {Config} config */
function kindOf(asked, kinds, config) {
  if (asked && (asked === ALL || kinds.includes(asked))) return asked;
  return config.kind && kinds.includes(config.kind) ? config.kind : ALL;
}

/** @param {string} kind */
const plural = (kind) => (kind === "other" ? "others" : `${kind}s`);

/** @param {Rows} rows @param {string} key */
function distinct(rows, key) {
  return [...new Set(rowNumbers(rows.length).map((row) => String(rows.value(key, row))))];
}

/** @param {number} count */
const rowNumbers = (count) => Array.from({ length: count }, (_, row) => row);

/** Without what is empty. @param {Record<string, string>} state */
const cleaned = (state) => Object.fromEntries(Object.entries(state).filter(([, value]) => value !== ""));
