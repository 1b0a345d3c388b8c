// The keys of the report and of the page that is shown, in a dialog of their own.

import { h, showDialog } from "stepscope/dom.js";

/** @typedef {readonly (readonly [string, string])[]} Keys what to press, and what it does */

/** @type {Keys} */
const EVERYWHERE = [
  ["1 … 9", "go to a page"],
  ["/", "search"],
  ["t", "light or dark"],
  ["?", "this help"],
  ["Esc", "close it"],
];

/**
 * @param {string} title of the page that is shown
 * @param {Keys} keys of that page
 */
export function showHelp(title, keys) {
  showDialog("Keys", table(EVERYWHERE), keys.length > 0 && h("h3", null, title), keys.length > 0 && table(keys));
}

/** @param {Keys} keys */
function table(keys) {
  const rows = keys.map(([key, does]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, does)));
  return h("table", null, h("tbody", null, ...rows));
}
