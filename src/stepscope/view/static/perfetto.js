// Hands a trace to Perfetto's page, when the user asks for it: see "Deep linking" in its manual.

import { startTheme } from "stepscope/theme.js";

const PERFETTO = "https://ui.perfetto.dev";
const PAUSE_MS = 200;
const PING_MS = 50;
const PATIENCE_MS = 60_000;

const link = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);
const doing = /** @type {HTMLElement} */ (document.getElementById("doing"));
const bar = /** @type {HTMLProgressElement} */ (document.getElementById("progress"));
const button = /** @type {HTMLButtonElement} */ (document.getElementById("open"));
const download = /** @type {HTMLAnchorElement} */ (document.getElementById("download"));
let name = "trace";

/** @param {string} text */
function fail(text) {
  bar.hidden = true;
  doing.className = "error";
  doing.textContent = text;
}

/** Ask once. @returns {Promise<boolean>} whether to ask again */
async function ask() {
  const answer = await fetch(`../pftrace-progress/${link}`);
  if (!answer.ok) {
    fail("The trace no longer exists.");
    return false;
  }
  const { ready, error, doing: what, done, total } = await answer.json();
  if (error) fail(`The trace cannot be written: ${error}`);
  else if (ready) offer();
  if (error || ready) return false;
  doing.textContent = `${what} …`;
  if (total > 0) [bar.max, bar.value] = [total, done];
  else bar.removeAttribute("value");
  return true;
}

function offer() {
  bar.hidden = true;
  doing.textContent = "The trace is ready.";
  download.href = `../pftrace/${link}`;
  download.download = `${name}.pftrace`;
  download.hidden = false;
  button.disabled = false;
  button.onclick = () => open();
}

async function open() {
  const other = window.open(`${PERFETTO}/`); // at once: a browser allows it after a click only
  if (!other) {
    fail("The browser did not open a window: allow this page to, or download the file.");
    return;
  }
  doing.textContent = "Waiting for Perfetto …";
  const isThere = answered(other);
  const answer = await fetch(`../pftrace/${link}`);
  if (!answer.ok) {
    fail("The trace no longer exists.");
    return;
  }
  const buffer = await answer.arrayBuffer();
  if (!(await isThere)) {
    fail(`${PERFETTO} does not answer: download the file, and open it there.`);
    return;
  }
  other.postMessage({ perfetto: { buffer, title: name, fileName: `${name}.pftrace` } }, PERFETTO, [buffer]);
  doing.textContent = "Perfetto has the trace.";
}

/** Wait until Perfetto's page listens. @param {Window} other @returns {Promise<boolean>} */
function answered(other) {
  return new Promise((resolve) => {
    const ping = setInterval(() => other.postMessage("PING", PERFETTO), PING_MS);
    const end = (/** @type {boolean} */ isThere) => {
      clearInterval(ping);
      clearTimeout(patience);
      window.removeEventListener("message", heard);
      resolve(isThere);
    };
    const heard = (/** @type {MessageEvent} */ event) => {
      if (event.origin === PERFETTO && event.data === "PONG") end(true);
    };
    const patience = setTimeout(() => end(false), PATIENCE_MS);
    window.addEventListener("message", heard);
  });
}

startTheme();
try {
  name = decodeURIComponent(link);
  document.title = `${name} in Perfetto – Stepscope`;
  /** @type {HTMLElement} */ (document.getElementById("name")).textContent = name;
} catch {
  // A name that is no Unicode is not shown.
}
try {
  while (await ask()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
} catch (error) {
  fail(`Cannot reach the server: has stepscope view been stopped? (${error})`);
}
