// The message of a page without data: what it would show, and what to record for it.

import { h } from "stepscope/dom.js";

/**
 * @typedef {object} Missing
 * @property {string} shows what the page would show: "how much memory ..."
 * @property {string} why there is nothing
 * @property {string} [option] of `stepscope run` that records it
 * @property {string} [argument] of the profiler, in either dialect, that does
 */

/** @param {string} title of the page @param {Missing} [about] */
export function missing(title, about) {
  if (!about) return h("section", { class: "missing" }, h("h1", null, title), h("p", null, "This trace has nothing for this page."));
  const { shows, why, option, argument } = about;
  return h(
    "section",
    { class: "missing" },
    h("h1", null, title),
    h("p", null, h("strong", null, why), ` This page shows ${shows}.`),
    option && h("p", null, "To see it, record with ", h("code", null, option), ":"),
    option && h("pre", null, `stepscope run ${option} script.py`),
    argument && h("p", null, "or pass ", h("code", null, argument), " to the profiler in your program."),
  );
}
