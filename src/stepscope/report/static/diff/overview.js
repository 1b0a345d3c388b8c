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
    const diff = data.value("diff");
    const change = diff.is_real ? (diff.change > 0 ? "diff-slower" : "diff-faster") : "";
    /** @type {Table[]} */
    const tables = diff.tables;
    const place = h("div");
    /** @param {string} by */
    const show = (by) => {
      const table = tables.find((each) => each.by === by) ?? tables[0];
      place.replaceChildren(diffTable(table.rows, diff.before_ns, diff.unit));
    };
    const chosen = state.by ?? tables[0].by;
    const choices = /** @type {[string, string][]} */ (tables.map(({ by, title }) => [by, title]));
    const by = select("Sorted by", choices, chosen, (value) => {
      show(value);
      app.note({ by: value });
    });
    const steps = new Steps(data);
    root.append(
      h("h1", { class: `diff-verdict ${change}` }, diff.verdict),
      h("ul", { class: "diff-facts quiet" }, ...[...diff.facts, ...diff.others].map((/** @type {string} */ line) => h("li", null, line))),
      h("h2", null, `${diff.unit === "run" ? "Runs" : "Steps"} of both sides, on one scale`),
      steps.element,
      h("h2", null, `What changed: ${time(diff.before_ns)} to ${time(diff.after_ns)}`),
      by,
      place,
    );
    show(chosen);
    return steps.open();
  },
};
