// Colours of slices: the kind gives the hue, the name the shade, so a name keeps its colour.

/** @typedef {[number, number, number]} Rgb 0 to 255 */

export const SHADES = 12;

/**
 * By the name of the kind: where its hues begin and end (degrees) and how strong they are (%).
 * @type {Record<string, [number, number, number]>}
 */
const HUES = {
  OTHER: [220, 230, 8],
  OPERATOR: [200, 248, 62],
  RANGE: [295, 330, 55],
  STEP: [275, 280, 40],
  PYTHON: [42, 66, 38],
  RUNTIME: [182, 192, 28],
  KERNEL: [105, 160, 48],
  MEMCPY: [18, 34, 78],
  MEMSET: [8, 16, 60],
  SYNC: [350, 358, 35],
  DEVICE_RANGE: [315, 345, 40],
  MODULE: [255, 272, 55],
};

/** The name of a kind for people. @param {string} name such as "DEVICE_RANGE" */
export function kindWord(name) {
  const words = { RUNTIME: "runtime call", PYTHON: "Python call", MEMCPY: "copy", MEMSET: "fill", SYNC: "synchronisation" };
  return words[/** @type {keyof typeof words} */ (name)] ?? name.toLowerCase().replace("_", " ");
}

// The contrast of text by shade, so that all hues are equally readable.
const CONTRASTS = { light: [11.5, 10.2, 9], dark: [7.4, 6.2, 5.2] };
const DARK_STRENGTH = 0.75; // strong colours glare on a dark ground

/**
 * The colour of each kind and shade, at `kind * SHADES + shade`.
 * @param {Record<string, number>} kinds
 * @param {Rgb} text the colour of the names in the boxes
 * @param {boolean} dark
 * @returns {Rgb[]}
 */
export function palette(kinds, text, dark) {
  /** @type {Rgb[]} */
  const colours = [];
  for (const [name, kind] of Object.entries(kinds)) {
    const [low, high, full] = HUES[name] ?? HUES.OTHER;
    const strength = dark ? full * DARK_STRENGTH : full;
    for (let shade = 0; shade < SHADES; shade++) {
      const hue = low + ((high - low) * (shade % 4)) / 3;
      const wanted = CONTRASTS[dark ? "dark" : "light"][Math.floor(shade / 4)];
      colours[kind * SHADES + shade] = readable(hue, strength, text, wanted, dark);
    }
  }
  return colours;
}

/**
 * The colour of that hue on which a text has the contrast wanted.
 * @param {number} hue
 * @param {number} strength
 * @param {Rgb} text
 * @param {number} wanted
 * @param {boolean} dark whether boxes are darker than text
 */
function readable(hue, strength, text, wanted, dark) {
  let [low, high] = [0, 100];
  for (let i = 0; i < 10; i++) {
    const middle = (low + high) / 2;
    const enough = contrast(rgb(hue, strength, middle), text) >= wanted;
    if (enough === dark) low = middle;
    else high = middle;
  }
  return rgb(hue, strength, dark ? low : high);
}

/** The shade of a name: the same in every report. @param {string} name */
export function shadeOf(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length && i < 200; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  }
  return (hash >>> 8) % SHADES;
}

/**
 * @param {number} hue degrees
 * @param {number} strength %
 * @param {number} brightness %
 * @returns {Rgb}
 */
export function rgb(hue, strength, brightness) {
  const l = brightness / 100;
  const a = (strength / 100) * Math.min(l, 1 - l);
  /** @param {number} n */
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** "#rrggbb" as numbers. @param {string} text @returns {Rgb} */
export function parsed(text) {
  const value = Number.parseInt(text.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** As a canvas keeps it in memory (little-endian). @param {Rgb} colour */
export function packed([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/**
 * A colour over another. @param {Rgb} over @param {Rgb} under @param {number} share 0 to 1
 * @returns {Rgb}
 */
export function blended(over, under, share) {
  return /** @type {Rgb} */ (over.map((value, i) => Math.round(value * share + under[i] * (1 - share))));
}

/** WCAG's contrast of two colours. @param {Rgb} a @param {Rgb} b */
export function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** @param {Rgb} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
