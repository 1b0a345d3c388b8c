// Light or dark: as the system says, until the reader chooses.

const KEPT_AS = "stepscope-theme";

/** Restore the reader's last choice, and print in light colours. */
export function startTheme() {
  const chosen = storedTheme();
  if (chosen) document.documentElement.dataset.theme = chosen;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", announce);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
}

let onScreen = ""; // the theme to come back to

/**
 * Lay the page out for paper, and repaint canvases now: no frame comes in
 * between, and a canvas that kept the screen's size and colours would be stretched and dark.
 * @param {boolean} begins
 */
function print(begins) {
  const root = document.documentElement;
  if (root.classList.contains("printing") === begins) return;
  if (begins) onScreen = root.dataset.theme ?? "";
  root.classList.toggle("printing", begins);
  show(begins ? "light" : onScreen);
  window.dispatchEvent(new Event("paintnow"));
}

export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  show(theme);
  try {
    localStorage.setItem(KEPT_AS, theme);
  } catch {
    // A page from disk may have no storage: the choice lasts while it is open.
  }
}

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {string} theme "": as the system says */
function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  announce();
}

function announce() {
  window.dispatchEvent(new Event("themechange"));
}

function storedTheme() {
  try {
    const theme = localStorage.getItem(KEPT_AS);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}
