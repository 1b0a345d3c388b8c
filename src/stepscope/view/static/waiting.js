// The progress of a report that is being built; afterwards the same address shows the report.

import { startTheme } from "stepscope/theme.js";
import { link, showName } from "./named.js";

const PAUSE_MS = 200;

const doing = /** @type {HTMLElement} */ (document.getElementById("doing"));
const bar = /** @type {HTMLProgressElement} */ (document.getElementById("progress"));

/** @param {string} text */
function fail(text) {
  bar.hidden = true;
  doing.className = "error";
  doing.textContent = text;
}

/** Ask once. @returns {Promise<boolean>} whether to ask again */
async function ask() {
  const answer = await fetch(`../progress/${link}`);
  if (!answer.ok) {
    fail("The trace no longer exists.");
    return false;
  }
  const { ready, error, doing: what, done, total } = await answer.json();
  if (error) fail(`The report cannot be built: ${error}`);
  else if (ready) location.reload(); // with the hash, which says what to show
  if (error || ready) return false;
  doing.textContent = `${what} …`;
  if (total > 0) [bar.max, bar.value] = [total, done];
  else bar.removeAttribute("value");
  return true;
}

startTheme();
showName();
try {
  while (await ask()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
} catch (error) {
  fail(`Cannot reach the server: has stepscope view been stopped? (${error})`);
}
