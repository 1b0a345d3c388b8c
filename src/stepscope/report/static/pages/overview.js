// What was profiled, where its time went, and what to do about it.

import { h } from "stepscope/dom.js";
import { bytes, number, percent, time } from "stepscope/format.js";
import { stepChart } from "stepscope/steps.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../app.js").App} App */
/** @typedef {{name: string, count: number, self_ns: number, total_ns: number, device_ns: number}} Row */
/** @typedef {{title: string, text: string, fix: string, severity: string, link: {page: string, state: Record<string, string>}}} Finding */

/** @type {import("../app.js").Page} */
export const page = {
  id: "overview",
  title: "Overview",
  available: () => true,
  keys: [
    ["← →", "select a step, when the chart has the focus"],
    ["Enter", "show the step in the timeline"],
  ],
  show(root, data, _state, app) {
    const steps = stepChart(data, app);
    root.append(
      heading(data),
      losses(data) ?? "",
      findings(data, app) ?? "",
      h(
        "div",
        { class: "cards" },
        steps && card("Steps", "wide", steps.element),
        whereTimeGoes(data),
        devices(data),
        top("Operators by self time", "operators", data, app),
        top("Kernels by time", "kernels", data, app),
        memory(data, app),
        about(data),
      ),
    );
    return steps?.close;
  },
};

/** @param {string} title @param {string} kind @param {...(Node | null)} children */
function card(title, kind, ...children) {
  return h("section", { class: `card ${kind}` }, h("h2", null, title), ...children);
}

/** @param {Data} data */
function heading(data) {
  const { events, threads, streams, window_ns } = data.value("overview");
  const places = [count(threads, "thread"), streams ? count(streams, "stream") : ""].filter(Boolean);
  const began = data.value("overview.began_ms");
  const when = began === null ? "" : `, ${new Date(began).toLocaleString()}`;
  const line = `${count(events, "event")} on ${places.join(" and ")} in ${time(window_ns)}${when}`;
  return h("header", { class: "what" }, h("h1", null, data.value("title")), h("p", { class: "quiet" }, line));
}

/** What is not in the numbers below. @param {Data} data */
function losses(data) {
  const lost = data.value("overview.losses");
  const left = data.value("left_out");
  const lines = [];
  if (lost) {
    const which = lost.policy ? `the ${lost.policy} ` : "";
    const limit = lost.limit_bytes ? ` of ${bytes(lost.limit_bytes)}` : "";
    lines.push(`Lost: ${which}${count(lost.events, "event")}; the memory limit${limit} was reached. Sums do not include them.`);
  }
  if (left) {
    const events = data.value("overview").events;
    lines.push(`Lower detail: the timeline holds ${number(events - left)} of ${number(events)} events, the longest at each moment. Sums include every event.`);
  }
  return lines.length ? h("div", { class: "losses", role: "alert" }, ...lines.map((line) => h("p", null, line))) : null;
}

/** @param {Data} data @param {App} app */
function findings(data, app) {
  /** @type {Finding[] | undefined} */
  const found = data.value("findings");
  if (!found) return null;
  if (!found.length) return card("Findings", "findings", h("p", { class: "quiet" }, "None of the known problems was found."));
  const items = found.map((finding) =>
    h(
      "li",
      { class: finding.severity },
      h("strong", null, finding.title),
      h("p", null, finding.text),
      h("p", { class: "fix" }, finding.fix),
      app.has(finding.link.page)
        ? h("a", { href: app.link(finding.link.page, finding.link.state), "aria-label": `Evidence: ${finding.title}` }, "Show the evidence")
        : null,
    ),
  );
  return card("Findings", "findings", h("ul", null, ...items));
}

/** The average step by part. @param {Data} data */
function whereTimeGoes(data) {
  /** @type {{id: string, name: string, mean_ns: number}[]} */
  const parts = data.value("steps.parts") ?? [];
  const whole = parts.reduce((sum, part) => sum + part.mean_ns, 0);
  if (!whole) return null;
  const shown = parts.filter((part) => part.mean_ns > 0);
  const bar = shown.map((part) =>
    h("span", { class: `part ${part.id}`, style: `flex-grow: ${part.mean_ns}`, title: `${part.name}: ${time(part.mean_ns)}` }),
  );
  const rows = shown.map((part) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, h("span", { class: `key part ${part.id}` }), part.name),
      h("td", null, time(part.mean_ns)),
      h("td", null, percent(part.mean_ns, whole)),
    ),
  );
  const seen = data.value("steps.of_device") ? "What the devices do at each moment" : "What the step’s thread does at each moment";
  return card(
    "Where the time of a step goes",
    "",
    h("div", { class: "stack", "aria-hidden": "true" }, ...bar),
    h("table", { class: "plain" }, h("tbody", null, ...rows)),
    h("p", { class: "quiet" }, `${seen}; the average step takes ${time(whole)}.`),
  );
}

/** @param {Data} data */
function devices(data) {
  /** @type {{name: string, busy_ns: number, window_ns: number}[]} */
  const all = data.value("overview").devices;
  if (!all.length) return null;
  const rows = all.map((device) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, `device ${device.name}`),
      h("td", { class: "bar" }, meter(device.busy_ns, device.window_ns)),
      h("td", null, percent(device.busy_ns, device.window_ns)),
      h("td", null, `${time(device.busy_ns)} of ${time(device.window_ns)}`),
    ),
  );
  return card("Device utilization", "", h("table", { class: "plain" }, h("tbody", null, ...rows)));
}

/** @param {string} title @param {"operators" | "kernels"} page @param {Data} data @param {App} app */
function top(title, page, data, app) {
  const told = data.value("overview");
  /** @type {Row[]} */
  const rows = told[page];
  if (!rows.length) return null;
  const whole = page === "operators" ? told.total_self_ns : told.total_device_ns;
  const lines = rows.map((row) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, app.has(page) ? h("a", { href: app.link(page, { filter: row.name }), title: row.name }, row.name) : row.name),
      h("td", { class: "bar" }, meter(row.self_ns, rows[0].self_ns)),
      h("td", null, time(row.self_ns)),
      h("td", null, percent(row.self_ns, whole)),
      h("td", null, `${number(row.count)} ×`),
    ),
  );
  const of = page === "operators" ? `the self time of all calls in the ${told.in_steps ? "steady steps" : "whole run"}` : "the time of all device work";
  return card(title, "", h("table", { class: "plain top" }, h("tbody", null, ...lines)), h("p", { class: "quiet" }, `Shares are of ${of}: ${time(whole)}.`));
}

/** @param {Data} data @param {App} app */
function memory(data, app) {
  /** @type {{device: string, bytes: number, time_ns: number, where: string}[]} */
  const peaks = data.value("overview").peaks;
  if (!peaks.length) return null;
  const rows = peaks.map((peak) => {
    const size = bytes(peak.bytes);
    const state = { device: peak.device, at: String(peak.time_ns) };
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, peak.device),
      h("td", null, app.has("memory") ? h("a", { href: app.link("memory", state) }, size) : size),
      h("td", null, `at ${time(peak.time_ns)}${peak.where ? ` in ${peak.where}` : ""}`),
    );
  });
  return card("Peak memory", "", h("table", { class: "plain" }, h("tbody", null, ...rows)));
}

/** Where the numbers come from. @param {Data} data */
function about(data) {
  const { overhead_ns, event_overhead_ns, window_ns, phases } = data.value("overview");
  /** @type {[string, string][]} */
  const lines = Object.entries(data.value("overview.source"));
  for (const [name, times, ns] of phases) lines.push([name, `${time(ns)}, ${count(times, "time")}`]);
  if (overhead_ns) {
    lines.push(["profiling overhead", `about ${time(overhead_ns)}, ${percent(overhead_ns, window_ns)} of the time (${time(event_overhead_ns)} per event)`]);
  }
  const odd = Object.entries(data.value("overview.anomalies"));
  if (odd.length) lines.push(["anomalies", odd.map(([what, times]) => `${what}: ${number(/** @type {number} */ (times))}`).join(", ")]);
  /** @type {[string, string][]} */
  const metadata = Object.entries(data.value("overview.metadata"));
  return card(
    "What was profiled",
    "about",
    pairs(lines),
    metadata.length > 0 ? h("details", null, h("summary", null, `Metadata (${metadata.length})`), pairs(metadata)) : null,
  );
}

/** @param {[string, string][]} lines */
function pairs(lines) {
  return h("dl", null, ...lines.flatMap(([label, text]) => [h("dt", null, label), h("dd", null, text)]));
}

/** A bar for the eye alone: the number stands beside it. @param {number} part @param {number} whole */
function meter(part, whole) {
  const share = whole ? (100 * part) / whole : 0;
  return h("span", { class: "meter", "aria-hidden": "true", style: `width: ${share.toFixed(2)}%` });
}

/** @param {number} times @param {string} noun */
function count(times, noun) {
  return `${number(times)} ${noun}${times === 1 ? "" : "s"}`;
}
