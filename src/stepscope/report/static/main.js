// Where a report starts: unpack the data, show the pages.

import { App } from "stepscope/app.js";
import { decode } from "stepscope/decode.js";
import { h } from "stepscope/dom.js";

/** @param {import("./app.js").Page[]} pages in their order, as the report's page imports them */
export async function start(pages) {
  const root = /** @type {HTMLElement} */ (document.getElementById("page"));
  const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
  const packed = /** @type {HTMLElement} */ (document.getElementById("data"));
  performance.mark("started");
  try {
    const data = await decode(packed.textContent ?? "");
    packed.remove();
    performance.mark("decoded");
    new App(bar, root, data, pages);
    // Callbacks run before their frame is painted: at the second one, the first is visible.
    requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("painted")));
  } catch (error) {
    root.replaceChildren(h("p", { role: "alert" }, `This report cannot be shown: ${error}`));
    throw error;
  }
}
