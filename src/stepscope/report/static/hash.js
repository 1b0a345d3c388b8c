// The view's state as the URL's hash: the page's id, then what it shows, as in a query.

/** @typedef {Record<string, string>} State */

/** @param {string} id @param {State} state @returns {string} without the # */
export function hashOf(id, state) {
  const query = new URLSearchParams(state).toString();
  return query ? `${id}?${query}` : id;
}

/** @param {string} hash with or without the # @returns {{id: string, state: State}} */
export function parseHash(hash) {
  const text = hash.replace(/^#/, "");
  const at = text.indexOf("?");
  const [id, query] = at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  return { id: decoded(id), state: Object.fromEntries(new URLSearchParams(query)) };
}

/** A hash may be typed by hand: invalid escapes stay unchanged. @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
