// A comparison: the verdict, the steps of both sides on one scale, and what changed.

import { Steps } from "stepscope/diff/steps.js";
import { diffTable } from "stepscope/diff/table.js";
import { h, select } from "stepscope/dom.js";
import { time } from "stepscope/format.js";

/** @typedef {{by: string, title: string, rows: [string, number, number, string][]}} Table */

/** @type {import("../app.js").Page} */
export const page = {
  id: "comparison",
  title: "Comparison",
  available: () => true,
  show(root, data, state, app) {
    const told = data.value("diff");
    const change = told.is_real ? (told.change > 0 ? "diff-slower" : "diff-faster") : "";
    /** @type {Table[]} */
    const tables = told.tables;
    const place = h("div");
    /** @param {string} by */
    const show = (by) => {
      const table = tables.find((each) => each.by === by) ?? tables[0];
      place.replaceChildren(diffTable(table.rows, told.before_ns, told.unit));
    };
    const chosen = state.by ?? tables[0].by;
    const choices = /** @type {[string, string][]} */ (tables.map(({ by, title }) => [by, title]));
    const by = select("Sorted by", choices, chosen, (value) => {
      show(value);
      app.note({ by: value });
    });
    const steps = new Steps(data);
    root.append(
      h("h1", { class: `diff-verdict ${change}` }, told.verdict),
      h("ul", { class: "diff-facts quiet" }, ...[...told.facts, ...told.others].map((/** @type {string} */ line) => h("li", null, line))),
      h("h2", null, `${told.unit === "run" ? "Runs" : "Steps"} of both sides, on one scale`),
      steps.element,
      h("h2", null, `What changed: ${time(told.before_ns)} to ${time(told.after_ns)}`),
      by,
      place,
    );
    show(chosen);
    return steps.open();
  },
};
