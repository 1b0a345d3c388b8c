// A colour for each name, the same wherever it is shown.

const HUES = [212, 150, 28, 280, 340, 95, 190, 255];

/** @param {string} text */
export function colourOf(text) {
  let sum = 7;
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) >>> 0;
  return `hsl(${HUES[sum % HUES.length]} ${38 + (sum % 3) * 8}% ${38 + ((sum >> 4) % 3) * 5}%)`;
}
