// The frame around the pages: navigation, theme, keys, and the view's state in the URL's hash.

import { h, showDialog } from "stepscope/dom.js";
import { hashOf, parseHash } from "stepscope/hash.js";
import { lostEvents, lowerDetail } from "stepscope/lib/losses.js";
import { startTheme, toggleTheme } from "stepscope/theme.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {import("./hash.js").State} State */
/** @typedef {readonly (readonly [string, string])[]} Keys what to press, and what it does */
/**
 * @typedef {object} Missing
 * @property {string} shows what the page would show: "how much memory ..."
 * @property {string} why there is nothing
 * @property {string} [option] of `stepscope run` that records it
 * @property {string} [argument] of the profiler, in either dialect, that does
 */
/**
 * @typedef {object} Page
 * @property {string} id in the URL
 * @property {string} title
 * @property {(data: Data) => boolean} available whether the trace has data for it
 * @property {(root: HTMLElement, data: Data, state: State, app: App) => (() => void) | void} show
 *   fills the root; the returned function is called when the page is left or the state changes by hand
 * @property {boolean} [bySlice] it shows single events; a report of a big trace has only some of them
 * @property {Keys} [keys] the page's own keys, for the help
 * @property {Missing} [missing] why a trace may have nothing for it, and what to do about that
 */

/** @type {Keys} */
const EVERYWHERE = [
  ["1 … 9", "go to a page"],
  ["/", "search"],
  ["t", "light or dark"],
  ["?", "this help"],
  ["Esc", "close it"],
];

const SERVED = /^(\/[^/]+\/)report\/([^/]+)$/;

export class App {
  /**
   * @param {HTMLElement} bar
   * @param {HTMLElement} root
   * @param {Data} data
   * @param {Page[]} pages
   */
  constructor(bar, root, data, pages) {
    this.root = root;
    this.data = data;
    this.pages = pages;
    this.page = this.pages[0];
    this.title = document.title;
    /** @type {(() => void) | void} */
    this.leave = undefined;
    /** @type {State} */
    this.state = {};
    this.links = this.pages.map((page, i) => this.linkTo(page, i));
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    bar.replaceChildren(
      h("strong", null, "Stepscope"),
      h("nav", { "aria-label": "Pages" }, ...this.links),
      h(
        "span",
        { class: "bar-buttons" },
        h("button", { onclick: toggleTheme, title: "Light or dark (key t)" }, "Theme"),
        perfettoButton(),
        h("button", { onclick: () => this.help(), title: "All keys (key ?)" }, "Keys"),
      ),
    );
    bar.after(this.notice);
    startTheme();
    window.addEventListener("hashchange", () => {
      this.route();
      // Screen readers and scrolling by key continue on the new page.
      this.root.focus({ preventScroll: true });
    });
    window.addEventListener("keydown", (event) => this.key(event));
    this.route();
  }

  get id() {
    return this.page.id;
  }

  /** Open a page as if its link was clicked. @param {string} id @param {State} [state] */
  go(id, state = {}) {
    location.hash = hashOf(id, state);
  }

  /** A link to a page. @param {string} id @param {State} [state] */
  link(id, state = {}) {
    return `#${hashOf(id, state)}`;
  }

  /** Whether this report has such a page with data. @param {string} id */
  has(id) {
    return this.pages.some((page) => page.id === id && page.available(this.data));
  }

  /** Write changes of the state into the address, without showing the page again. @param {State} changes "": remove */
  note(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === "") delete this.state[key];
      else this.state[key] = value;
    }
    history.replaceState(null, "", `#${hashOf(this.id, this.state)}`);
  }

  route() {
    const { id, state } = parseHash(location.hash);
    const asked = this.pages.find((page) => page.id === id);
    this.page = asked ?? this.pages[0];
    const unknown = asked || !id ? "" : `This report has no page “${id}”; here is the ${this.pages[0].title}.`;
    this.tell([unknown, ...this.losses()].filter(Boolean).join(" "));
    this.state = asked ? state : {};
    this.leave?.();
    this.leave = undefined;
    this.root.replaceChildren();
    this.root.className = `page-${this.id}`;
    this.root.dataset.title = `${this.page.title} – ${this.title}`; // on paper, which has no tabs
    this.root.scrollTop = 0;
    document.title = this.pages.length > 1 ? `${this.page.title} - ${this.title}` : this.title;
    for (const [i, page] of this.pages.entries()) {
      if (page === this.page) this.links[i].setAttribute("aria-current", "page");
      else this.links[i].removeAttribute("aria-current");
    }
    this.show();
  }

  /** What this page lacks; the first page has its own message. @returns {string[]} */
  losses() {
    if (this.page === this.pages[0]) return [];
    return [lostEvents(this.data), this.page.bySlice ? lowerDetail(this.data) : ""];
  }

  show() {
    try {
      if (this.has(this.id)) this.leave = this.page.show(this.root, this.data, this.state, this);
      else this.root.append(missing(this.page.title, this.page.missing));
    } catch (error) {
      // The other pages may still work.
      this.root.replaceChildren(h("p", { role: "alert" }, `This page cannot be shown: ${error}`));
      console.error(error);
    }
  }

  /** Show a line above the page. @param {string} text "": none */
  tell(text) {
    this.notice.textContent = text;
    this.notice.hidden = !text;
  }

  help() {
    showHelp(this.page.title, this.page.keys ?? []);
  }

  /** @param {Page} page @param {number} i */
  linkTo(page, i) {
    const title = i < 9 ? `${page.title} (key ${i + 1})` : page.title;
    const has = page.available(this.data);
    return h("a", { href: this.link(page.id), title: has ? title : `${title}: nothing recorded`, class: !has && "empty" }, page.title);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const page = /^[1-9]$/.test(event.key) ? this.pages[Number(event.key) - 1] : undefined;
    if (page) this.go(page.id);
    else if (event.key === "t") toggleTheme();
    else if (event.key === "?") this.help();
    else if (event.key === "/") this.search();
    else return;
    event.preventDefault();
  }

  search() {
    const field = /** @type {HTMLInputElement | null} */ (this.root.querySelector("input[type=search]"));
    field?.focus();
    field?.select();
  }
}

/** Whether a key press enters text. @param {EventTarget | null} target */
export function isTyping(target) {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}

/**
 * Show the keys of the report and of a page.
 * @param {string} title of the page that is shown
 * @param {Keys} keys of that page
 */
function showHelp(title, keys) {
  showDialog("Keys", keyTable(EVERYWHERE), keys.length > 0 && h("h3", null, title), keys.length > 0 && keyTable(keys));
}

/** @param {Keys} keys */
function keyTable(keys) {
  const rows = keys.map(([key, does]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, does)));
  return h("table", null, h("tbody", null, ...rows));
}

/** The message of a page without data. @param {string} title of the page @param {Missing} [about] */
function missing(title, about) {
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

// Beside a report of `stepscope view`, its server has the trace for Perfetto; a report that was opened
// from a file explains how to write it.
function perfettoButton() {
  const served = location.protocol === "http:" ? SERVED.exec(location.pathname) : null;
  const title = "Open this trace in Perfetto";
  if (!served) return h("button", { onclick: tellPerfetto, title }, "Perfetto");
  const go = () => location.assign(`${served[1]}perfetto/${served[2]}`);
  return h("button", { onclick: go, title }, "Perfetto");
}

function tellPerfetto() {
  showDialog(
    "Open in Perfetto",
    h("p", null, "Write the trace for Perfetto, and open the file at ui.perfetto.dev:"),
    h("pre", null, "stepscope export TRACE -o trace.pftrace"),
    h("p", null, "Or let a page do both, for all traces of a folder:"),
    h("pre", null, "stepscope view FOLDER"),
  );
}
