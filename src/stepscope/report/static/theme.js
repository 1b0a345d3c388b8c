// Light or dark: as the system says, until the reader chooses.

const KEPT_AS = "stepscope-theme";

/** Take up what the reader chose last, and print in light colours: paper is white. */
export function startTheme() {
  const chosen = kept();
  if (chosen) document.documentElement.dataset.theme = chosen;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", announce);
  let before = "";
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme ?? "";
    show("light");
  });
  window.addEventListener("afterprint", () => show(before));
}

export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  show(theme);
  try {
    localStorage.setItem(KEPT_AS, theme);
  } catch {
    // A page from disk may have no storage: the choice holds as long as it is open.
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

function kept() {
  try {
    const theme = localStorage.getItem(KEPT_AS);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}
