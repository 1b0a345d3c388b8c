// Where the page starts: unpack the data, show the pages. A page is one line here.

import { App } from "stepscope/app.js";
import { decode } from "stepscope/decode.js";
import { h } from "stepscope/dom.js";
import { overview } from "stepscope/pages/overview.js";

const PAGES = [overview];

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
const packed = /** @type {HTMLElement} */ (document.getElementById("data"));

try {
  const data = await decode(packed.textContent ?? "");
  packed.remove();
  performance.mark("decoded");
  new App(bar, root, data, PAGES);
  requestAnimationFrame(() => performance.mark("painted"));
} catch (error) {
  root.replaceChildren(h("p", { role: "alert" }, `This report cannot be shown: ${error}`));
  throw error;
}
