// The page of a folder: asks the server every few seconds, and shows what has changed.

import { h } from "stepscope/dom.js";
import { startTheme, toggleTheme } from "stepscope/theme.js";
import { COLUMNS, hashOf, shown, sortedBy, viewOf } from "./listing.js";

/** @typedef {import("./listing.js").Row} Row */
/** @typedef {{folder: string, left_out: string, traces: Row[]}} Listing */

const PAUSE_MS = 2000;

const folder = element("folder");
const filter = /** @type {HTMLInputElement} */ (element("filter"));
const trouble = element("trouble");
const count = element("count");
const table = /** @type {HTMLTableElement} */ (element("traces"));
const body = table.tBodies[0];

let view = viewOf(location.hash);
/** @type {Listing} */
let listing = { folder: "", left_out: "", traces: [] };
/** @type {Map<string, {told: string, line: HTMLElement}>} a line of the table by its link */
const lines = new Map();

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

async function ask() {
  try {
    const answer = await fetch("traces.json");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    listing = await answer.json();
    trouble.hidden = true;
    show();
  } catch (error) {
    trouble.textContent = `Cannot reach the server: has stepscope view been stopped? (${error})`;
    trouble.hidden = false;
  }
}

async function keepAsking() {
  for (;;) {
    if (!document.hidden) await ask();
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE_MS);
      document.addEventListener("visibilitychange", resolve, { once: true });
    });
  }
}

function show() {
  const rows = shown(listing.traces, view);
  folder.textContent = folder.title = listing.folder;
  count.textContent = told(rows.length);
  table.hidden = !listing.traces.length;
  showHeads();
  for (const link of lines.keys()) {
    if (!listing.traces.some((row) => row.link === link)) lines.delete(link);
  }
  const wanted = rows.map(lineOf);
  for (const line of [...body.children]) {
    if (!wanted.includes(/** @type {HTMLElement} */ (line))) line.remove();
  }
  // An unchanged line keeps the focus.
  wanted.forEach((line, i) => {
    if (body.children[i] !== line) body.insertBefore(line, body.children[i] ?? null);
  });
}

/** @param {number} rows shown */
function told(rows) {
  const all = listing.traces.length;
  if (!all) return "No traces yet. They appear here as they are written: stepscope run train.py";
  const recording = listing.traces.filter((row) => row.recording).length;
  const waiting = listing.traces.filter((row) => !row.figures && !row.error && !row.recording).length;
  const parts = [rows === all ? `${all} ${all === 1 ? "trace" : "traces"}` : `${rows} of ${all} traces`];
  if (recording) parts.push(`${recording} being recorded`);
  if (waiting) parts.push(`${waiting} being read`);
  if (listing.left_out) parts.push(listing.left_out);
  return parts.join(" · ");
}

function showHeads() {
  const heads = /** @type {HTMLElement} */ (table.tHead?.rows[0]);
  if (!heads.children.length) heads.append(...COLUMNS.map(head));
  COLUMNS.forEach((column, i) => {
    const cell = heads.children[i];
    const isSorted = column.id === view.sort;
    if (isSorted) cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
    const arrow = isSorted ? (view.down ? " ↓" : " ↑") : "";
    /** @type {HTMLElement} */ (cell.firstElementChild).textContent = column.title + arrow;
  });
}

/** @param {import("./listing.js").Column} column */
function head(column) {
  const sort = () => change(sortedBy(view, column));
  return h("th", { scope: "col", class: !column.isText && "figure" }, h("button", { type: "button", onclick: sort }));
}

/** @param {Row} row @returns {HTMLElement} */
function lineOf(row) {
  const told = JSON.stringify(row);
  const known = lines.get(row.link);
  if (known?.told === told) return known.line;
  const cells = row.error ? brokenCells(row) : row.recording ? growingCells(row) : cellsOf(row);
  const line = known?.line ?? h("tr");
  // The first cell holds the link, which may have the focus.
  if (line.firstElementChild) {
    line.querySelector("a")?.setAttribute("href", target(row));
    line.replaceChildren(line.firstElementChild, ...cells);
  } else line.append(nameCell(row), ...cells);
  lines.set(row.link, { told, line });
  return line;
}

/** @param {Row} row */
function nameCell(row) {
  return h("td", { class: "text" }, h("a", { href: target(row) }, row.name));
}

/** What a click opens: of what is being recorded, the page that grows with it. @param {Row} row */
function target(row) {
  return `${row.recording ? "live" : "report"}/${row.link}`;
}

/** @param {Row} row */
function growingCells(row) {
  const since = h("td", { class: "figure" }, COLUMNS[1].text(row));
  return [since, h("td", { class: "note", colspan: COLUMNS.length - 2 }, "being recorded: open it to watch it grow")];
}

/** @param {Row} row */
function cellsOf(row) {
  const cells = COLUMNS.slice(1).map((column) =>
    h("td", { class: column.isText ? "text" : "figure" }, column.text(row)),
  );
  const lost = row.figures?.lost_events ? [`${row.figures.lost_events} events were lost`] : [];
  for (const note of [...lost, ...row.notes]) {
    cells[cells.length - 1].append(h("div", { class: "note" }, note));
  }
  if (!row.figures) return cells;
  const perfetto = { href: `perfetto/${row.link}`, class: "quiet", title: "Open in Perfetto" };
  return [...cells, h("td", null, h("a", perfetto, "Perfetto"))];
}

/** @param {Row} row */
function brokenCells(row) {
  const told = COLUMNS.slice(1, 3).map((column) => h("td", { class: "figure" }, column.text(row)));
  return [...told, h("td", { class: "error", colspan: COLUMNS.length - 3 }, row.error)];
}

/** @param {import("./listing.js").View} next */
function change(next) {
  view = next;
  history.replaceState(null, "", `#${hashOf(view)}`);
  show();
}

/** Up and down move from trace to trace. @param {number} by */
function moveFocus(by) {
  const links = [...body.querySelectorAll("a")];
  const at = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target === filter;
  if (event.key === "ArrowDown") moveFocus(1);
  else if (event.key === "ArrowUp") moveFocus(-1);
  else if (isTyping) return;
  else if (event.key === "/") filter.focus();
  else if (event.key === "t") toggleTheme();
  else return;
  event.preventDefault();
}

startTheme();
filter.value = view.filter;
filter.addEventListener("input", () => change({ ...view, filter: filter.value }));
element("theme").addEventListener("click", toggleTheme);
window.addEventListener("keydown", key);
window.addEventListener("hashchange", () => {
  view = viewOf(location.hash);
  filter.value = view.filter;
  show();
});
keepAsking();
