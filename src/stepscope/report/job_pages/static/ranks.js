// All ranks of a job: who is late, when, at which collective, and two ranks side by side.

import { h, select } from "stepscope/dom.js";
import { count, number, time } from "stepscope/format.js";
import { headingsOf, rowsOf, subset } from "stepscope/lib/columns.js";
import { Table } from "stepscope/table.js";
import { Arrivals } from "job/arrivals.js";
import { Heat } from "job/heat.js";
import { Pair } from "job/pair.js";

/** @typedef {import("../../static/decode.js").Data} Data */
/** @typedef {import("../../static/app.js").App} App */
/** @typedef {{title: string, text: string, fix: string, severity: string, saves_ns: number, of_ns: number, unit: string, evidence: any}} Finding */

/** @type {[string, string][]} */
const METRICS = [
  ["delay", "arrives late by"],
  ["own", "own work"],
  ["step", "step time"],
];

/** @type {import("../../static/app.js").Page} */
export const page = {
  id: "ranks",
  title: "Ranks",
  available: () => true,
  keys: [
    ["← → ↑ ↓", "go from one step and rank to the next, when the map has the focus"],
    ["Enter", "show the step of that rank beside another rank"],
    ["+ −", "zoom, when the timeline of two ranks has the focus; ← → move it"],
  ],
  show(root, data, state, app) {
    const view = new RanksView(root, data, state, app);
    return () => view.close();
  },
};

class RanksView {
  /** @param {HTMLElement} root @param {Data} data @param {Record<string, string>} state @param {App} app */
  constructor(root, data, state, app) {
    this.data = data;
    this.app = app;
    this.about = data.value("job");
    this.ranks = rowsOf(data, "ranks");
    this.meetings = rowsOf(data, "meetings");
    this.numbers = data.column("job.number");
    this.detail = h("p", { class: "rank-detail", role: "status" });
    this.heat = new Heat(data, state.metric ?? "delay", (rank, step) => this.tell(rank, step), (rank, step) => this.choose(rank, step));
    this.arrivals = new Arrivals(data);
    this.pair = new Pair(data, this.first(state.a, 0), this.first(state.b, this.ranks.length - 1));
    root.append(...this.parts());
    const worst = data.column("meetings.worst");
    const meeting = Number(state.collective ?? worst[0] ?? -1);
    if (meeting >= 0) this.showMeeting(meeting);
    const step = state.step === undefined ? this.worstStep() : data.column("job.steps").indexOf(Number(state.step));
    this.pair.showStep(Math.max(step, 0));
    this.tell(-1, -1);
  }

  /** The index of a rank by its number; else that of a row of the table. @param {string | undefined} wanted @param {number} row */
  first(wanted, row) {
    const at = wanted === undefined ? -1 : this.numbers.indexOf(/** @type {never} */ (Number(wanted)));
    if (at >= 0) return at;
    const middle = row ? Math.floor(this.ranks.length / 2) : 0;
    return Number(this.ranks.value("at", Math.min(middle, this.ranks.length - 1)));
  }

  worstStep() {
    const steps = this.data.column("job.steps").length;
    const delays = this.data.column("heat.delay");
    const steady = this.data.column("job.steady");
    let [best, most] = [0, -1];
    for (let i = 0; i < delays.length; i++) {
      if (delays[i] > most && steady[i % steps]) [best, most] = [i % steps, delays[i]];
    }
    return best;
  }

  parts() {
    const { job, clock, steps, verdict, missing, left_out: leftOut } = this.about;
    const hosts = job.hosts.length ? ` on ${count(job.hosts.length, "host")}` : "";
    const world = job.ranks.length < job.world_size ? ` of ${number(job.world_size)}` : "";
    const line = `${number(job.ranks.length)}${world} ranks${hosts} · ${count(job.events, "event")} · ${count(job.collectives, "collective")} · ${count(steps.count, steps.unit)}, median ${time(steps.median_ns)}`;
    const clocks = clock.aligned ? `Clocks are aligned by the ends of collectives; the residual is ${time(clock.residual_ns)}; smaller differences are not blamed on any rank.` : "Clocks are as recorded: no collective shows how far apart they are.";
    return [
      h("header", { class: "what" }, h("h1", { class: "verdict" }, verdict), h("p", { class: "quiet" }, line, h("br"), clocks)),
      this.losses(missing, leftOut),
      this.findings(),
      card("Ranks and steps", this.metric(), this.heat.canvas, this.heat.legend, this.detail),
      card("Two ranks side by side", this.pairChoices(), this.pair.canvas, this.pair.line),
      card("Arrivals at one collective", this.arrivals.title, this.arrivals.canvas, this.arrivals.line),
      card("Blame: the collectives that waited longest for one rank", this.blameTable()),
      card("All ranks", this.rankDetail(), this.rankTable()),
    ];
  }

  /** @param {number[]} missing @param {{name: string, reason: string}[]} leftOut */
  losses(missing, leftOut) {
    if (!missing.length && !leftOut.length) return "";
    const shown = leftOut.slice(0, 20).map(({ name, reason }) => h("li", null, h("code", null, name), ` ${reason}`));
    const more = leftOut.length > 20 ? h("li", null, `and ${leftOut.length - 20} more`) : null;
    const absent = missing.length ? h("p", null, `There is no usable trace of rank ${missing.slice(0, 30).join(", ")}${missing.length > 30 ? ", ..." : ""}.`) : null;
    return h("div", { class: "losses", role: "alert" }, absent, shown.length ? h("p", null, "Left out:") : null, h("ul", null, ...shown, more));
  }

  findings() {
    /** @type {Finding[]} */
    const found = this.about.findings;
    if (!found.length) return card("Findings", h("p", { class: "quiet" }, "None of the known problems was found."));
    const items = found.map((finding) =>
      h(
        "li",
        { class: finding.severity },
        h("strong", null, finding.title),
        finding.saves_ns > 0 ? h("p", { class: "worth" }, `would save ${time(finding.saves_ns)} of ${time(finding.of_ns)} a ${finding.unit}`) : null,
        h("p", null, finding.text),
        h("p", { class: "fix" }, finding.fix),
        typeof finding.evidence.rank === "number"
          ? h("button", { onclick: () => this.showFinding(finding.evidence) }, "Show the evidence")
          : null,
      ),
    );
    const section = card("Findings", h("ul", null, ...items));
    section.classList.add("findings");
    return section;
  }

  /** @param {{rank: number, steps: number[]}} evidence */
  showFinding({ rank, steps }) {
    const at = this.numbers.indexOf(/** @type {never} */ (rank));
    const step = this.data.column("job.steps").indexOf(/** @type {never} */ (steps[0]));
    this.choose(at, Math.max(step, 0));
    this.pair.canvas.scrollIntoView({ block: "center" });
  }

  metric() {
    const choice = select("Colour by", METRICS, this.heat.metric, (value) => {
      this.heat.use(value);
      this.app.note({ metric: value });
    });
    return h("p", { class: "choices" }, choice);
  }

  pairChoices() {
    const choices = /** @type {[string, string][]} */ (Array.from(this.numbers, (rank, at) => [String(at), `rank ${rank}`]));
    this.chooseA = select("Rank", choices, String(this.pair.a), (value) => this.usePair(Number(value), this.pair.b));
    this.chooseB = select("beside", choices, String(this.pair.b), (value) => this.usePair(this.pair.a, Number(value)));
    return h("p", { class: "choices" }, this.chooseA, this.chooseB, this.pair.stepChoice);
  }

  /** @param {number} a @param {number} b */
  usePair(a, b) {
    this.pair.use(a, b);
    for (const [choice, value] of /** @type {[HTMLElement | undefined, number][]} */ ([[this.chooseA, a], [this.chooseB, b]])) {
      const field = /** @type {HTMLSelectElement | null | undefined} */ (choice?.querySelector("select"));
      if (field) field.value = String(value);
    }
    this.app.note({ a: String(this.numbers[a]), b: String(this.numbers[b]) });
  }

  blameTable() {
    const worst = Array.from(this.data.column("meetings.worst"));
    const rows = subset(this.meetings, worst);
    const table = new Table({
      label: "collectives",
      unit: "collectives",
      columns: headingsOf(this.data, "meetings", "blame_ns"),
      rows,
      sort: "-blame_ns",
      prefix: "blame-",
      limit: 10,
      pick: (row) => {
        this.showMeeting(worst[row]);
        this.arrivals.canvas.scrollIntoView({ block: "center" });
      },
    });
    return table.element;
  }

  rankTable() {
    const several = new Set(Array.from({ length: this.ranks.length }, (_, row) => this.ranks.value("host", row))).size > 1;
    const table = new Table({
      label: "ranks",
      unit: "ranks",
      columns: headingsOf(this.data, "ranks", "delay_ns").filter(({ key }) => key !== "host" || several),
      rows: this.ranks,
      sort: "-delay_ns",
      prefix: "rank-",
      limit: 16,
      pick: (row) => this.describe(row),
    });
    return table.element;
  }

  rankDetail() {
    this.own = h("p", { class: "rank-own", role: "status" });
    if (this.ranks.length) this.describe(0);
    return this.own;
  }

  /** Say where a rank's own report is. @param {number} row of the table */
  describe(row) {
    const rank = this.ranks.value("rank", row);
    const link = String(this.ranks.value("link", row));
    const path = this.about.commands[Number(this.ranks.value("at", row))] ?? "";
    const opened = link
      ? h("a", { href: link, target: "_blank", rel: "noopener" }, `Open the report of rank ${rank}`)
      : h("span", null, `The report of rank ${rank} is not written yet: `, h("code", null, `stepscope report ${path}`));
    this.own?.replaceChildren(opened);
  }

  /** @param {number} meeting */
  showMeeting(meeting) {
    this.arrivals.show(meeting);
    this.app.note({ collective: String(meeting) });
  }

  /** What is under the pointer. @param {number} rank index, -1: nothing @param {number} step index */
  tell(rank, step) {
    if (rank < 0) {
      this.detail.textContent = "Rows are ranks, columns are steps; darker means later. Click a cell to show that rank's step beside another rank.";
      return;
    }
    const steps = this.data.column("job.steps");
    const at = rank * steps.length + step;
    /** @param {string} name */
    const value = (name) => time(this.data.column(`heat.${name}`)[at]);
    this.detail.textContent = `Rank ${this.numbers[rank]}, ${this.about.steps.unit} ${steps[step]}: arrives ${value("delay")} after the median rank; own work ${value("own")} of ${value("step")}`;
  }

  /** @param {number} rank index @param {number} step index */
  choose(rank, step) {
    const other = this.pair.b === rank ? this.pair.a : this.pair.b;
    this.usePair(rank, other);
    this.pair.showStep(step);
    this.app.note({ step: String(this.data.column("job.steps")[step]) });
    const meeting = this.worstMeeting(step);
    if (meeting >= 0) this.showMeeting(meeting);
  }

  /** The collective of a step with most blame. @param {number} step index */
  worstMeeting(step) {
    const wanted = this.data.column("job.steps")[step];
    const [of, blame] = [this.data.column("meetings.step"), this.data.column("meetings.blame_ns")];
    let best = -1;
    for (let i = 0; i < of.length; i++) if (of[i] === wanted && (best < 0 || blame[i] > blame[best])) best = i;
    return best;
  }

  close() {
    for (const part of [this.heat, this.arrivals, this.pair]) part.close();
  }
}

/** @param {string} title @param {...(Node | string | null | undefined)} children */
function card(title, ...children) {
  return h("section", { class: "card wide" }, h("h2", null, title), ...children);
}

