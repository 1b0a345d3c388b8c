// A page with one big table: what to group by, a filter by kind, and the details of a row.

import { h, select } from "stepscope/dom.js";
import { columnsOf, hasRows, rowsOf, rowsWith, subset } from "stepscope/lib/columns.js";
import { whenChoice, whereChoice } from "stepscope/scopes.js";
import { shown, Table } from "stepscope/table.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {import("./app.js").App} App */
/** @typedef {import("./lib/rows.js").Column} Column */
/** @typedef {import("./lib/rows.js").Rows} Rows */
/**
 * @typedef {object} Config
 * @property {string} table in the data: its groupings are `${table}.name` and so on
 * @property {string} unit what is in it, "operators"
 * @property {(scope: number) => Column[]} columns of all groupings, in a scope
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
const LISTED = 6; // groups of each kind in the details

/** The column that a grouping adds. @param {string} grouping @returns {Column} */
const groupColumn = (grouping) => ({ key: grouping, title: GROUPINGS[grouping].title, unit: "text", separator: " ← " });

/** What can be grouped by. @param {Data} data @param {Config} config @returns {string[]} */
const groupingsOf = (data, config) => data.value(`${config.table}.groupings`) ?? [];

/** The scopes of the numbers, the default first. @param {Data} data @param {Config} config @returns {import("./scopes.js").Scope[]} */
const scopesOf = (data, config) => data.value(`${config.table}.scopes`) ?? [];

/** The rows of a scope; all rows of a table without scopes. @param {Data} data @param {string} name @param {Rows} rows @param {number} scope */
function rowsIn(data, name, rows, scope) {
  if (!data.has(`${name}.scope`)) return rowNumbers(rows.length);
  const of = data.column(`${name}.scope`);
  return rowNumbers(rows.length).filter((row) => of[row] === scope);
}

/**
 * Fill a page.
 * @param {HTMLElement} root
 * @param {Data} data
 * @param {Record<string, string>} state "by", "kind", "when", "thread", "row", and those of the table
 * @param {App} app
 * @param {Config} config
 * @returns {() => void} what leaving the page needs
 */
export function showGrouped(root, data, state, app, config) {
  const by = groupingsOf(data, config).includes(state.by) ? state.by : "name";
  const name = `${config.table}.${by}`;
  const rows = rowsOf(data, name);
  const scopes = scopesOf(data, config);
  const scope = chosenScope(scopes, state);
  const inScope = rowsIn(data, name, rows, scope);
  const kinds = config.kind ? distinct(rows, "kind", inScope) : [];
  const kind = kindOf(state.kind, kinds, config);
  const picked = kind === ALL ? inScope : inScope.filter((row) => rows.value("kind", row) === kind);
  const columns = columnsFor(data, name, by, kind, config, scope).filter((column) => isKept(column, rows, picked, config));
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
      showDetails(panel, data, rows, picked[row], columns, app, config, scope, close);
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
    whenChoice([...new Set(scopes.map(({ when }) => when))], scopes[scope]?.when, (value) => change({ when: value })),
    whereChoice(data, (where) => scopes.some((each) => each.where === where), scopes[scope]?.where, (value) => change({ thread: value })),
  );
  root.append(choices, h("div", { class: "with-details" }, table.element, panel));
  if (table.picked >= 0) showDetails(panel, data, rows, picked[table.picked], columns, app, config, scope, close);
  return () => root.removeEventListener("keydown", onkey);
}

/**
 * The columns of a grouping, without those that would say the same in every row.
 * @param {Data} data @param {string} name @param {string} by @param {string} kind @param {Config} config @param {number} scope
 */
function columnsFor(data, name, by, kind, config, scope) {
  const [first, ...others] = columnsOf(data, name, config.columns(scope));
  const rest = others.filter(({ key }) => key !== by && (key !== "kind" || !config.kind || kind === ALL));
  return by === "name" ? [first, ...rest] : [first, groupColumn(by), ...rest];
}

/** Whether a column has values in some rows. @param {Column} column @param {Rows} rows @param {number[]} picked @param {Config} config */
function isKept({ key, unit }, rows, picked, config) {
  if (unit === "text" || key === config.amount || key === "count") return true;
  return picked.some((row) => Number(rows.value(key, row)) !== 0);
}

/**
 * @param {HTMLElement} panel
 * @param {Data} data
 * @param {Rows} rows
 * @param {number} row
 * @param {Column[]} columns
 * @param {App} app
 * @param {Config} config
 * @param {number} scope
 * @param {() => void} close
 */
function showDetails(panel, data, rows, row, columns, app, config, scope, close) {
  const name = String(rows.value(columns[0].key, row));
  const facts = columns.slice(1).flatMap((column) => {
    const text = shown(column, rows.value(column.key, row));
    return text ? [h("dt", { title: column.hint }, column.title), h("dd", { class: column.unit === "text" ? "text" : "" }, text)] : [];
  });
  const links = [
    app.has("timeline") && h("a", { href: app.link("timeline", { q: name }) }, "Find in the timeline"),
    app.has("flame") && h("a", { href: app.link("flame", { q: name }) }, "Find in the flame graph"),
  ];
  const lists = groupingsOf(data, config).slice(1).map((grouping) => list(data, grouping, name, columns, config, scope));
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
 * What distinguishes calls of one name, the largest first.
 * @param {Data} data
 * @param {string} grouping
 * @param {string} name
 * @param {Column[]} columns
 * @param {Config} config
 * @param {number} scope
 */
function list(data, grouping, name, columns, config, scope) {
  const table = `${config.table}.${grouping}`;
  if (!hasRows(data, table)) return null;
  const rows = rowsOf(data, table);
  const inScope = new Set(rowsIn(data, table, rows, scope));
  const matches = rowsWith(rows, "name", name)
    .filter((row) => inScope.has(row))
    .sort((a, b) => Number(rows.value(config.amount, b)) - Number(rows.value(config.amount, a)));
  const amount = columns.find((column) => column.key === config.amount);
  if (!matches.length || !amount || matches.every((row) => !rows.value(grouping, row))) return null;
  const items = matches.slice(0, LISTED).map((row) =>
    h(
      "li",
      null,
      h("span", { class: "amount" }, `${shown(amount, rows.value(amount.key, row))} · ${rows.value("count", row)}×`),
      h("span", { class: "text" }, String(rows.value(grouping, row)) || "(none)"),
    ),
  );
  const leftOut = matches.length - items.length;
  return h("section", null, h("h3", null, GROUPINGS[grouping].list), h("ul", null, ...items), leftOut > 0 && h("p", { class: "quiet" }, `and ${leftOut} more`));
}

/** @param {string | undefined} asked @param {string[]} kinds @param {Config} config */
function kindOf(asked, kinds, config) {
  if (asked && (asked === ALL || kinds.includes(asked))) return asked;
  return config.kind && kinds.includes(config.kind) ? config.kind : ALL;
}

/** @param {string} kind */
const plural = (kind) => (kind === "other" ? "others" : `${kind}s`);

/** @param {Rows} rows @param {string} key @param {number[]} among */
function distinct(rows, key, among) {
  return [...new Set(among.map((row) => String(rows.value(key, row))))];
}

/** The chosen scope, else the first. @param {import("./scopes.js").Scope[]} scopes @param {Record<string, string>} state */
function chosenScope(scopes, state) {
  const when = state.when ?? scopes[0]?.when;
  return Math.max(scopes.findIndex((scope) => scope.when === when && scope.where === (state.thread ?? "")), 0);
}

/** @param {number} count */
const rowNumbers = (count) => Array.from({ length: count }, (_, row) => row);

/** The state without empty values. @param {Record<string, string>} state */
const cleaned = (state) => Object.fromEntries(Object.entries(state).filter(([, value]) => value !== ""));
