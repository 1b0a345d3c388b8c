// Where the page starts: unpack the data, show the pages. A page is one line here.

import { App } from "stepscope/app.js";
import { decode } from "stepscope/decode.js";
import { h } from "stepscope/dom.js";
import { flame } from "stepscope/pages/flame.js";
import { kernels } from "stepscope/pages/kernels.js";
import { memory } from "stepscope/pages/memory.js";
import { modules } from "stepscope/pages/modules.js";
import { operators } from "stepscope/pages/operators.js";
import { overview } from "stepscope/pages/overview.js";
import { source } from "stepscope/pages/source.js";
import { timeline } from "stepscope/pages/timeline.js";

const PAGES = [overview, timeline, operators, kernels, modules, flame, memory, source];

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
const packed = /** @type {HTMLElement} */ (document.getElementById("data"));

performance.mark("started");
try {
  const data = await decode(packed.textContent ?? "");
  packed.remove();
  performance.mark("decoded");
  new App(bar, root, data, PAGES);
  // A frame's callbacks run before it is painted: at the second one, the first is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("painted")));
} catch (error) {
  root.replaceChildren(h("p", { role: "alert" }, `This report cannot be shown: ${error}`));
  throw error;
}
