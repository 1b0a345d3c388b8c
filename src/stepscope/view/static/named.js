// The trace in the page's address.

/** The last part of the address, as a part of other addresses. */
export const link = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);

/** Show the trace's name in the page's head and as its title. */
export function showName() {
  try {
    const name = decodeURIComponent(link);
    document.title = `${name} – Stepscope`;
    /** @type {HTMLElement} */ (document.getElementById("name")).textContent = name;
  } catch {
    // A name that is no Unicode is not shown.
  }
}
