// Elements without markup: text always goes in as text.

import { isDark } from "stepscope/theme.js";

/**
 * Make an element. Properties that start with "on" are listeners; "class", "title" and other names
 * are attributes; a value of null, undefined or false leaves the attribute out.
 * @param {string} tag
 * @param {Record<string, any> | null} [properties]
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * A labelled choice.
 * @param {string} label
 * @param {[string, string][]} choices value and text
 * @param {string} chosen
 * @param {(value: string) => void} change
 */
export function select(label, choices, chosen, change) {
  const options = choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const element = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => change(element.value) }, ...options));
  return h("label", null, `${label} `, element);
}

/**
 * Open a dialog in place of the one that is open.
 * @param {string} title
 * @param {...(Node | false)} children
 */
export function showDialog(title, ...children) {
  document.querySelector("dialog.help")?.remove();
  const close = h("form", { method: "dialog" }, h("button", { autofocus: true }, "Close"));
  const element = h("dialog", { class: "help", "aria-label": title }, h("h2", null, title), ...children, close);
  const dialog = /** @type {HTMLDialogElement} */ (element);
  dialog.addEventListener("close", () => dialog.remove());
  // A click beside the dialog is one on its backdrop, which counts as the dialog itself.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

/** The value of a colour of the theme. @param {string} name such as "--accent" */
export function themed(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const pair = value.match(/^light-dark\((.*),\s*(.*)\)$/);
  return pair ? pair[isDark() ? 2 : 1] : value;
}

/**
 * A canvas for the size of its box, sharp on any screen; `draw` is called when the size or the
 * theme changes.
 * @param {HTMLCanvasElement} canvas
 * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw
 * @returns {{redraw: () => void, close: () => void}}
 */
export function fitted(canvas, draw) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let asked = 0;
  function paint() {
    asked = 0;
    const { width, height } = canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const [w, h2] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h2) [canvas.width, canvas.height] = [w, h2];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, width, height);
  }
  const redraw = () => {
    asked ||= requestAnimationFrame(paint);
  };
  const observer = new ResizeObserver(redraw);
  observer.observe(canvas);
  window.addEventListener("paintnow", paint);
  window.addEventListener("themechange", redraw);
  redraw();
  return {
    redraw,
    close: () => {
      observer.disconnect();
      window.removeEventListener("paintnow", paint);
      window.removeEventListener("themechange", redraw);
      cancelAnimationFrame(asked);
    },
  };
}
