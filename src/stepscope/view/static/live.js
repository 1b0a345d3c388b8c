// A recording in progress: the report's overview, redrawn when there is more data.

import { unframed } from "stepscope/decode.js";
import { bytes, number, time } from "stepscope/format.js";
import { page as overview } from "stepscope/pages/overview.js";
import { startTheme, toggleTheme } from "stepscope/theme.js";
import { link, showName } from "./named.js";

/**
 * @typedef {object} Status what the program says of itself
 * @property {number} pid
 * @property {number} since Unix time, in seconds
 * @property {number} memory_bytes
 * @property {number} steps
 * @property {number | null} last_step_ns
 */
/** @typedef {{recording: boolean, look: number, has_data: boolean, error: string, status: Status | null}} Growth */

const PAUSE_MS = 1000;

const now = /** @type {HTMLElement} */ (document.getElementById("now"));
const root = /** @type {HTMLElement} */ (document.getElementById("page"));

let shown = 0; // the look that is on the page
/** @type {(() => void) | void} */
let leave;

/** Ask once. @returns {Promise<boolean>} whether to ask again */
async function ask() {
  const answer = await fetch(`../growth/${link}`);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  /** @type {Growth} */
  const growth = await answer.json();
  if (!growth.recording) {
    end();
    return false;
  }
  now.textContent = told(growth);
  now.className = growth.error ? "error" : "quiet";
  if (growth.has_data && growth.look !== shown) await show(growth.look);
  return true;
}

/** @param {number} look */
async function show(look) {
  const answer = await fetch(`../look/${link}`);
  if (answer.status !== 200) return; // it has just ended: the next question tells
  const data = unframed(new Uint8Array(await answer.arrayBuffer()));
  const top = root.scrollTop;
  if (typeof leave === "function") leave();
  root.replaceChildren();
  // A recording in progress has no other pages to link to.
  const app = /** @type {any} */ ({ data, has: () => false, link: () => "#", go() {} });
  leave = overview.show(root, data, {}, app);
  root.scrollTop = top;
  shown = look;
}

/** The first line: what is true right now. @param {Growth} growth */
function told({ error, status }) {
  if (error) return `The recording cannot be read now: ${error}`;
  if (!status) return "recording …";
  const seconds = Math.max(0, Date.now() / 1000 - status.since);
  const parts = [`recording for ${time(Math.round(seconds) * 1e9)}`, `process ${status.pid}`];
  if (status.last_step_ns !== null) parts.push(`${number(status.steps)} steps, the last ${time(status.last_step_ns)}`);
  parts.push(`${bytes(status.memory_bytes)} resident`);
  return parts.join(" · ");
}

/** The recording is a trace now, under the same name: its report has all pages. */
function end() {
  now.className = "note";
  now.textContent = "The recording has ended. ";
  const report = document.createElement("a");
  report.href = `../report/${link}`;
  report.textContent = "Open its report";
  now.append(report);
  document.getElementById("waiting")?.remove();
}

startTheme();
document.getElementById("theme")?.addEventListener("click", toggleTheme);
showName();
try {
  while (await ask()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
} catch (error) {
  now.className = "error";
  now.textContent = `Cannot reach the server: has stepscope view been stopped? (${error})`;
}
