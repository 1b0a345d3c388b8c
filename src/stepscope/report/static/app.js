// The frame around the pages: navigation, theme, keys, and the view's state in the URL's hash.

import { h } from "stepscope/dom.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {Record<string, string>} State */
/**
 * @typedef {object} Page
 * @property {string} id in the URL
 * @property {string} title
 * @property {(data: Data) => boolean} available whether the trace has anything for it
 * @property {(root: HTMLElement, data: Data, state: State, app: App) => (() => void) | void} show
 *   fills the root; what it returns is called when the page is left or the state changes by hand
 */

export class App {
  /**
   * @param {HTMLElement} bar
   * @param {HTMLElement} root
   * @param {Data} data
   * @param {Page[]} pages
   */
  constructor(bar, root, data, pages) {
    this.bar = bar;
    this.root = root;
    this.data = data;
    this.pages = pages.filter((page) => page.available(data));
    /** @type {(() => void) | void} */
    this.leave = undefined;
    this.id = "";
    /** @type {State} */
    this.state = {};
    window.addEventListener("hashchange", () => this.route());
    window.addEventListener("keydown", (event) => this.key(event));
    this.route();
  }

  /** Go to a page, as a click on a link would. @param {string} id @param {State} [state] */
  go(id, state = {}) {
    location.hash = hashOf(id, state);
  }

  /** A link to a page. @param {string} id @param {State} [state] */
  link(id, state = {}) {
    return `#${hashOf(id, state)}`;
  }

  /** Note what the page shows, without showing it anew. @param {State} changes "": remove */
  note(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === "") delete this.state[key];
      else this.state[key] = value;
    }
    history.replaceState(null, "", `#${hashOf(this.id, this.state)}`);
  }

  route() {
    const [id, query] = location.hash.slice(1).split("?");
    const page = this.pages.find((each) => each.id === id) ?? this.pages[0];
    this.id = page.id;
    this.state = Object.fromEntries(new URLSearchParams(query ?? ""));
    this.leave?.();
    this.root.replaceChildren();
    this.root.className = `page-${page.id}`;
    this.showBar();
    this.leave = page.show(this.root, this.data, this.state, this);
  }

  showBar() {
    const links = this.pages.map((page, i) =>
      h(
        "a",
        {
          href: this.link(page.id),
          "aria-current": page.id === this.id && "page",
          title: `${page.title} (key ${i + 1})`,
        },
        page.title,
      ),
    );
    this.bar.replaceChildren(
      h("strong", null, "Stepscope"),
      h("nav", { "aria-label": "Pages" }, ...links),
      h("button", { onclick: toggleTheme, title: "Light or dark (key T)" }, "Theme"),
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const page = this.pages[Number(event.key) - 1];
    if (page) this.go(page.id);
    else if (event.key === "t") toggleTheme();
    else if (event.key === "/") {
      /** @type {HTMLElement | null} */ (this.root.querySelector("input[type=search]"))?.focus();
    } else return;
    event.preventDefault();
  }
}

/** Whether keys are text now. @param {EventTarget | null} target */
export function isTyping(target) {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}

/** @param {string} id @param {State} state */
function hashOf(id, state) {
  const query = new URLSearchParams(state).toString();
  return query ? `${id}?${query}` : id;
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  window.dispatchEvent(new Event("themechange"));
}
