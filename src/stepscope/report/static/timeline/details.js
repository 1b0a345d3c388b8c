// The panel at the side: what is selected, a slice or an interval, in words and numbers.

import { h } from "stepscope/dom.js";
import { number, percent, tickText, time } from "stepscope/format.js";
import { kindWord } from "stepscope/timeline/colours.js";
import { ancestorOfKind, argumentsOf, childrenOf, costFacts, integerFacts } from "stepscope/timeline/facts.js";
import { sums } from "stepscope/timeline/sums.js";

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("./flows.js").Flows} Flows */
/** @typedef {import("./lanes.js").TrackRow} TrackRow */
/** @typedef {(row: number) => void} Jump */

const LISTED = 5; // slices in a list of links
const TOP = 20; // names in an interval's sum
const UNFINISHED = 1; // SliceFlags
const ASYNC = 2;

/** The panel's text without a selection. @param {[string, string][]} legend */
export function hints(legend) {
  const keys = [
    ["W / S", "zoom in and out; also the wheel"],
    ["A / D", "move; also ← → or dragging"],
    ["↑ ↓", "scroll the rows"],
    ["Shift + arrows", "next slice, parent, child"],
    ["Shift + drag", "select an interval; also on the axis"],
    ["F / 0", "fit the selection / everything"],
    ["[ / ]", "previous / next step"],
    ["M", "sum the selected slice or the view"],
    ["N / Shift + N", "next / previous hit"],
    ["Esc", "end the search, clear the selection"],
  ];
  const colours = legend.map(([word, colour]) => {
    const swatch = h("span", { class: "timeline-swatch", style: `background: ${colour}` });
    return h("li", null, swatch, word);
  });
  return [
    h("h2", null, "Nothing selected"),
    h("p", { class: "quiet" }, "Click a box to see what it is."),
    h("dl", { class: "timeline-keys" }, ...keys.flatMap(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("h3", null, "Colours"),
    h("ul", { class: "timeline-legend" }, ...colours),
  ];
}

/**
 * @param {Data} data
 * @param {Flows} flows
 * @param {number} row
 * @param {Jump} jump
 */
export function sliceDetails(data, flows, row, jump) {
  const name = data.text(data.column("slices.name")[row]);
  const { inputs, others } = argumentsOf(data.text(data.column("slices.rest")[row] ?? 0));
  const stack = data.column("slices.stack")[row];
  return [
    h("h2", null, name),
    facts([...basicFacts(data, row), ...costFacts(data, row), ...integerFacts(data, row)]),
    ...links(data, flows, row, jump),
    ...listed("Inputs", inputs, "ol"),
    others.length ? h("h3", null, "Arguments") : null,
    others.length ? facts(others) : null,
    ...listed("Python stack, innermost first", stack ? data.frames(stack) : [], "ol"),
  ];
}

/** @param {Data} data @param {number} row @returns {[string, string][]} */
function basicFacts(data, row) {
  const kinds = Object.entries(data.value("kinds") ?? {});
  const kind = data.column("slices.kind")[row];
  const word = kinds.find(([, value]) => value === kind)?.[0] ?? "OTHER";
  const flags = data.column("slices.flags")[row];
  const duration = data.column("slices.duration")[row];
  const step = data.column("slices.step")[row];
  const track = data.value("tracks")?.[data.column("slices.track")[row]];
  const module = ancestorOfKind(data, row, data.value("kinds")?.MODULE ?? -1);
  const self = data.selfTime(row);
  /** @type {[string, string][]} */
  const facts = [
    ["Kind", kindWord(word)],
    ["Duration", time(duration) + (flags & UNFINISHED ? " (unfinished when recording stopped)" : "")],
    ["Self time", `${time(self)} (${percent(self, duration)})`],
    ["Start", tickText(data.column("slices.start")[row], Math.max(duration / 10, 1))],
  ];
  const full = data.value("strings.full")?.[data.column("slices.name")[row]];
  if (full) facts.push(["Full name", full]);
  if (flags & ASYNC) facts.push(["Ended", "on another thread, or while its own did other things"]);
  if (track) facts.push(["Thread", threadName(track)]);
  if (step) facts.push(["Step", number(step - 1)]);
  if (module >= 0) facts.push(["Module", data.text(data.column("slices.name")[module])]);
  return facts;
}

/** @param {{pid: string, tid: string, process: string, label: string, thread: string}} track */
function threadName(track) {
  // "stream 7" is what early Kinetos wrote for 7.
  const thread = track.thread.trim() || (/^(stream|thread)/i.test(track.tid) ? track.tid : `thread ${track.tid}`);
  return [track.label || track.process || track.pid, thread].filter(Boolean).join(", ");
}

/**
 * @param {Data} data
 * @param {Flows} flows
 * @param {number} row
 * @param {Jump} jump
 */
function links(data, flows, row, jump) {
  const parent = data.parent(row);
  /** @type {[string, number[]][]} */
  const groups = [
    ["Parent", parent < 0 ? [] : [parent]],
    ["Children", childrenOf(data, row)],
    ["Launched by", [flows.launchOf(row)].filter((each) => each >= 0)],
    ["Launched on the device", flows.workOf(row)],
    ["Forward operator", [flows.forwardOf(row)].filter((each) => each >= 0)],
    ["Backward functions", flows.backwardOf(row)],
  ];
  return groups
    .filter(([, rows]) => rows.length)
    .flatMap(([title, rows]) => {
      const duration = data.column("slices.duration");
      const total = rows.reduce((sum, each) => sum + duration[each], 0);
      const count = rows.length > 1 ? ` (${number(rows.length)}, ${time(total)})` : "";
      return [h("h3", null, title + count), linkList(data, rows, jump)];
    });
}

/** The longest of some slices, as buttons. @param {Data} data @param {number[]} rows @param {Jump} jump */
function linkList(data, rows, jump) {
  const duration = data.column("slices.duration");
  const first = [...rows].sort((a, b) => duration[b] - duration[a]).slice(0, LISTED);
  const items = first.map((row) => {
    const name = data.text(data.column("slices.name")[row]);
    const button = h("button", { class: "timeline-jump", title: name, onclick: () => jump(row) }, name);
    return h("li", null, button, h("span", { class: "quiet" }, time(duration[row])));
  });
  const more = rows.length - first.length;
  if (more > 0) items.push(h("li", { class: "quiet" }, `and ${number(more)} shorter`));
  return h("ul", { class: "timeline-links" }, ...items);
}

/** @param {[string, string][]} pairs */
function facts(pairs) {
  return h("dl", null, ...pairs.flatMap(([key, value]) => [h("dt", null, key), h("dd", null, value)]));
}

/** @param {string} title @param {string[]} lines @param {string} tag */
function listed(title, lines, tag) {
  if (!lines.length) return [];
  return [h("h3", null, title), h(tag, { class: "timeline-list" }, ...lines.map((line) => h("li", null, line)))];
}

/**
 * The sum of an interval, over all rows or over those of one thread.
 * @param {Data} data
 * @param {number} from
 * @param {number} to
 * @param {TrackRow[]} tracks
 * @param {(name: string) => void} find
 */
export function intervalDetails(data, from, to, tracks, find) {
  const result = h("div");
  const options = tracks.map(({ track, name, group }) => h("option", { value: track }, `${group}: ${name}`));
  const choice = /** @type {HTMLSelectElement} */ (
    h("select", { "aria-label": "Rows to sum" }, h("option", { value: "" }, "All threads and streams"), ...options)
  );
  const show = () => {
    const among = choice.value === "" ? undefined : (/** @type {number} */ track) => track === Number(choice.value);
    result.replaceChildren(...sumTable(data, sums(data, from, to, among), find));
  };
  choice.addEventListener("change", show);
  show();
  return [
    h("h2", null, `Interval of ${time(to - from)}`),
    facts([
      ["From", tickText(from, Math.max((to - from) / 100, 1))],
      ["To", tickText(to, Math.max((to - from) / 100, 1))],
    ]),
    h("p", null, choice),
    result,
  ];
}

/** @param {Data} data @param {import("./sums.js").Sum[]} all @param {(name: string) => void} find */
function sumTable(data, all, find) {
  const count = all.reduce((sum, each) => sum + each.count, 0);
  const rows = all.slice(0, TOP).map((sum) => {
    const name = data.text(sum.name);
    const button = h("button", { class: "timeline-jump", title: `Search for ${name}`, onclick: () => find(name) }, name);
    const cells = [number(sum.count), time(sum.total), time(sum.self)].map((text) => h("td", { class: "number" }, text));
    return h("tr", null, h("th", { scope: "row" }, button), ...cells);
  });
  const head = ["Name", "Calls", "Total", "Self"].map((text) => h("th", { scope: "col" }, text));
  const more = all.length - TOP;
  return [
    h("p", { class: "quiet" }, `${number(count)} slices, cut to the interval; the most self time first.`),
    h("table", { class: "timeline-sums" }, h("thead", null, h("tr", null, ...head)), h("tbody", null, ...rows)),
    ...(more > 0 ? [h("p", { class: "quiet" }, `and ${number(more)} more names`)] : []),
  ];
}
