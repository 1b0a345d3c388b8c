// The answer: a verdict, what to do about it, and where the time goes; then the facts behind it.

import { h } from "stepscope/dom.js";
import { bytes, count, number, percent, time } from "stepscope/format.js";
import { lostEvents, lowerDetail } from "stepscope/lib/losses.js";
import { stepChart } from "stepscope/steps.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../app.js").App} App */
/** @typedef {{name: string, count: number, self_ns: number}} Row */
/** @typedef {{file: string, line: number, function: string}} Place */
/**
 * @typedef {object} Finding
 * @property {string} title
 * @property {string} text
 * @property {string} fix
 * @property {string} severity
 * @property {number} saves_ns how much shorter a step would be, 0: not known
 * @property {number} of_ns how long a step is
 * @property {string} unit
 * @property {Place[]} places the guilty line first
 * @property {{page: string, state: Record<string, string>}} link
 */
/** @typedef {{what: string, id?: string, ns: number, share: number, file?: string, line?: number, function?: string}} Part */
/**
 * @typedef {object} Answer
 * @property {string} verdict
 * @property {string} unit "step", "request" or "run"
 * @property {number} unit_ns
 * @property {number} threads that are in steps, or share the time of a run without any, at a time
 * @property {Part[]} where
 * @property {Part[]} lines
 * @property {{waiting_ns: number, of_ns: number, words: string} | null} cores
 * @property {number} startup_ns
 * @property {Record<string, number>} startup
 * @property {{flops_utilisation: number | null, lines: Part[], device?: string, step_ns?: number, host_step_ns?: number, busy_ns?: number, waiting_for_host_ns?: number, limit?: string} | null} device
 */

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
        whereTimeGoes(data, app),
        costliest(data, app),
        costliestOnDevice(data, app),
        steps && card(steps.title, "wide", steps.element),
        devices(data, app),
        top("operators", data, app),
        top("kernels", data, app),
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

/** @param {Data} data @returns {Answer} */
const answerOf = (data) => data.value("answer");

/** The verdict, and what it is about. @param {Data} data */
function heading(data) {
  const { events, threads, streams, window_ns } = data.value("overview");
  const { verdict, cores, startup_ns, startup } = answerOf(data);
  const places = [count(threads, "thread"), streams ? count(streams, "stream") : ""].filter(Boolean);
  const began = data.value("overview.began_ms");
  const when = began === null ? "" : `, ${new Date(began).toLocaleString()}`;
  const line = `${count(events, "event")} on ${places.join(" and ")} in ${time(window_ns)}${when}`;
  const parts = Object.entries(startup).map(([what, ns]) => `${what} ${time(ns)}`);
  const before = startup_ns ? `Start-up took ${time(startup_ns)}${parts.length ? ` (${parts.join(", ")})` : ""} and is not part of what follows.` : "";
  const others = cores?.words ?? "";
  return h(
    "header",
    { class: "what" },
    h("h1", { class: "verdict" }, verdict),
    h("p", { class: "quiet" }, h("strong", null, data.value("title")), ` · ${line}`, before && h("br"), before, others && h("br"), others),
  );
}

/** What is not in the numbers below. @param {Data} data */
function losses(data) {
  const lines = [lostEvents(data), lowerDetail(data)].filter(Boolean);
  return lines.length ? h("div", { class: "losses", role: "alert" }, ...lines.map((line) => h("p", null, line))) : null;
}

/** @param {Data} data @param {App} app */
function findings(data, app) {
  /** @type {Finding[] | undefined} */
  const findings = data.value("findings");
  if (!findings) return null;
  if (!findings.length) return card("Findings", "findings", h("p", { class: "quiet" }, "None of the known problems was found."));
  const items = findings.map((finding) =>
    h(
      "li",
      { class: finding.severity },
      h("strong", null, finding.title),
      h(
        "p",
        { class: "worth" },
        finding.saves_ns > 0 && `would save ${time(finding.saves_ns)} of ${time(finding.of_ns)} ${finding.unit === "run" ? "in all" : `a ${finding.unit}`}`,
        finding.saves_ns > 0 && finding.places.length > 0 && " · ",
        finding.places[0] && placeLink(finding.places[0], app),
      ),
      h("p", null, finding.text),
      h("p", { class: "fix" }, finding.fix),
      app.has(finding.link.page)
        ? h("a", { href: app.link(finding.link.page, finding.link.state), "aria-label": `Evidence: ${finding.title}` }, "Show the evidence")
        : null,
    ),
  );
  return card("Findings", "findings", h("ul", null, ...items));
}

/** A line of the program, as a link where its file is shown. @param {Place} place @param {App} app */
function placeLink({ file, line, function: name }, app) {
  const text = `${file.split("/").slice(-2).join("/")}:${line}`;
  const title = `${file}:${line}${name ? ` ${name}` : ""}`;
  if (!app.has("source") || !app.data.value("source.files").includes(file)) return h("code", { title }, text);
  return h("a", { class: "place", href: app.link("source", { file, line: String(line) }), title }, text);
}

/** The average step by what it is spent on. @param {Data} data @param {App} app */
function whereTimeGoes(data, app) {
  const { where, unit, unit_ns, threads, cores } = answerOf(data);
  if (!where.length) return null;
  const bar = where.map((part) => h("span", { class: `part ${part.id}`, style: `flex-grow: ${part.ns}`, title: `${part.what}: ${time(part.ns)}` }));
  const rows = where.map((part) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, h("span", { class: `key part ${part.id}` }), part.what),
      h("td", { class: "at" }, part.file ? placeLink({ file: part.file, line: part.line ?? 0, function: part.function ?? "" }, app) : null),
      h("td", null, time(part.ns)),
      h("td", null, percent(part.share, 1)),
    ),
  );
  if (cores && cores.waiting_ns >= 0.005 * cores.of_ns) {
    const cells = [h("th", { scope: "row" }, "waiting for a core"), h("td", { class: "at" }), h("td", null, time(cores.waiting_ns)), h("td", null, "in no share")];
    rows.push(h("tr", null, ...cells));
  }
  const shared = threads >= 2 ? `, which ${threads.toFixed()} threads share` : "";
  const whole = unit === "run" ? `The run takes ${time(unit_ns)} after start-up${shared}` : `The average steady ${unit} takes ${time(unit_ns)}`;
  return card(
    unit === "run" ? "Where the run goes" : `Where a ${unit} goes`,
    "",
    h("div", { class: "stack", "aria-hidden": "true" }, ...bar),
    h("table", { class: "plain" }, h("tbody", null, ...rows)),
    h("p", { class: "quiet" }, `${whole}. The line beside a row is where most of its time is spent.`),
  );
}

/** The lines of the program that cost most. @param {Data} data @param {App} app */
function costliest(data, app) {
  const { lines, unit } = answerOf(data);
  const of = unit === "run" ? "the run" : `a ${unit}`;
  return linesCard("Lines that cost most", lines, `Share of ${of}: the line itself, including the library code that it calls.`, app);
}

/** The lines whose kernels and copies keep devices busy. @param {Data} data @param {App} app */
function costliestOnDevice(data, app) {
  const { device, unit } = answerOf(data);
  const of = unit === "run" ? "the device's work" : `a ${unit} on the device`;
  return linesCard("Lines whose kernels take most", device?.lines ?? [], `Of ${of}: what the line launches, and its backward pass.`, app);
}

/** @param {string} title @param {Part[]} lines @param {string} note @param {App} app */
function linesCard(title, lines, note, app) {
  if (!lines.length) return null;
  const rows = lines.map((row) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, placeLink({ file: row.file ?? "", line: row.line ?? 0, function: row.function ?? "" }, app), ` ${row.function ?? ""}`),
      h("td", { class: "bar" }, meter(row.ns, lines[0].ns)),
      h("td", null, time(row.ns)),
      h("td", null, percent(row.share, 1)),
    ),
  );
  return card(title, "", h("table", { class: "plain top" }, h("tbody", null, ...rows)), h("p", { class: "quiet" }, note));
}

/** How busy devices were, and what they make of a step. @param {Data} data @param {App} app */
function devices(data, app) {
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
  return card("Device utilization", "", h("table", { class: "plain" }, h("tbody", null, ...rows)), ...deviceStep(data, app));
}

/** A step as the device sees it, and how much of the device its operations use. @param {Data} data @param {App} app */
function deviceStep(data, app) {
  const { device, unit } = answerOf(data);
  const lines = [];
  if (device?.step_ns && device.host_step_ns) {
    const waits = device.waiting_for_host_ns ? ` and waiting ${time(device.waiting_for_host_ns)} for the host` : "";
    lines.push(
      h(
        "p",
        { class: "device-step" },
        `A ${unit === "run" ? "step" : unit} takes ${time(device.step_ns)} on device ${device.device} and ${time(device.host_step_ns)} on the host: `,
        h("strong", null, `the ${device.limit} is the bottleneck`),
        `. The device is busy for ${time(device.busy_ns ?? 0)}${waits}.`,
      ),
    );
  }
  if (device?.flops_utilisation) {
    const link = app.has("roofline") ? h("a", { href: app.link("roofline") }, "Roofline of the operators") : null;
    lines.push(h("p", null, h("strong", null, percent(device.flops_utilisation, 1)), " of the device's 16-bit peak (model FLOP utilisation of the steps). ", link));
  }
  return lines;
}

/** @param {"operators" | "kernels"} page @param {Data} data @param {App} app */
function top(page, data, app) {
  const overview = data.value("overview");
  const { unit, unit_ns } = answerOf(data);
  /** @type {Row[]} */
  const rows = overview[page];
  if (!rows.length) return null;
  const one = unit === "run" ? "the run" : `a ${unit}`;
  const whole = page === "operators" ? unit_ns : overview.busy_ns;
  const lines = rows.map((row) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, app.has(page) ? h("a", { href: app.link(page, { filter: row.name }), title: row.name }, row.name) : row.name),
      h("td", { class: "bar" }, meter(row.self_ns, rows[0].self_ns)),
      h("td", null, time(row.self_ns)),
      h("td", null, percent(row.self_ns, whole)),
      h("td", null, `${row.count < 10 ? Number(row.count.toPrecision(2)) : number(row.count)} ×`),
    ),
  );
  const title = page === "operators" ? `Operators of ${one}, by self time` : "Kernels by time";
  const of = page === "operators" ? `${one}, ${time(whole)}` : `the time in which devices were busy, ${time(whole)}`;
  return card(title, "", h("table", { class: "plain top" }, h("tbody", null, ...lines)), h("p", { class: "quiet" }, `Shares are of ${of}.`));
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
      h("td", { title: `${number(peak.bytes)} bytes` }, app.has("memory") ? h("a", { href: app.link("memory", state) }, size) : size),
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
