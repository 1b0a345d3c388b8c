// The canvas of boxes: each line is painted into a strip one pixel high, which is then stretched.

import { themed } from "stepscope/dom.js";
import { eachBox } from "stepscope/timeline/boxes.js";
import { SHADES, blended, kindWord, packed, palette, parsed, shadeOf } from "stepscope/timeline/colours.js";
import { BOX, linesWithin } from "stepscope/timeline/layout.js";

/** @typedef {import("./lanes.js").Lanes} Lanes */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Line} Line */
/** @typedef {import("./hits.js").Hits} Hits */
/** @typedef {import("./view.js").View} View */

const LEVELS = 8; // of how full a pixel is
const FAINTEST = 0.45; // a pixel with any slice can be seen
const DIMMED = 0.1; // how much a box that is no hit differs from the ground
const SAMPLES = 8; // slices of a pixel, of which the longest gives the colour
const LEAST_TEXT = 26; // CSS pixels: no name in a narrower box
const ELLIPSIS = 12; // CSS pixels for it, and for letters wider than the name's average
const FONT = "11px system-ui, sans-serif";
const UNFINISHED = 1; // SliceFlags
const LONGEST_TEXT = 300; // characters: no screen shows more

export class Painter {
  /** @param {Lanes} lanes */
  constructor(lanes) {
    this.lanes = lanes;
    const { data } = lanes;
    this.kind = data.column("slices.kind");
    this.name = data.column("slices.name");
    this.flags = data.column("slices.flags");
    /** By name: the shade and one more; 0 is not known yet. */
    this.shades = new Uint8Array(Math.max(data.column("strings.offsets").length, 1));
    /** @type {Map<number, {text: string, width: number}>} */
    this.texts = new Map();
    this.strip = document.createElement("canvas");
    /** @type {ImageData | null} */
    this.image = null;
    this.theme = themeOf(data.value("kinds") ?? {});
  }

  /** The theme has changed. */
  takeTheme() {
    this.theme = themeOf(this.lanes.data.value("kinds") ?? {});
  }

  /**
   * The kinds of slices that the trace has, each with its colour.
   * @returns {[string, string][]}
   */
  legend() {
    const present = new Uint8Array(256);
    for (let row = 0; row < this.kind.length; row++) present[this.kind[row]] = 1;
    return Object.entries(/** @type {Record<string, number>} */ (this.lanes.data.value("kinds") ?? {}))
      .filter(([, kind]) => present[kind])
      .map(([word, kind]) => [kindWord(word), `rgb(${this.theme.palette[kind * SHADES + SHADES / 2]})`]);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width CSS pixels
   * @param {number} height
   * @param {{view: View, layout: Layout, scroll: number, hits: Hits | null}} scene
   */
  paint(context, width, height, { view, layout, scroll, hits }) {
    context.fillStyle = this.theme.back;
    context.fillRect(0, 0, width, height);
    context.fillStyle = this.theme.panel;
    for (const head of layout.heads) {
      if (head.group) context.fillRect(0, head.top - scroll, width, head.height);
    }
    const ratio = context.canvas.width / Math.max(width, 1);
    const lines = linesWithin(layout, scroll, height);
    const pixels = context.canvas.width;
    if (!lines.length || !pixels) return;
    const image = this.cleared(pixels, lines.length);
    const words = new Uint32Array(image.data.buffer);
    const from = view.aligned(ratio);
    /** @type {number[]} line, left, right, row of the boxes that have room for a name */
    const named = [];
    lines.forEach((line, i) => {
      this.paintLine(words, i * image.width, line, from, view.perPixel / ratio, pixels, hits, (left, right, row) => {
        if (right - left >= LEAST_TEXT * ratio || this.flags[row] & UNFINISHED) named.push(i, left / ratio, right / ratio, row);
      });
    });
    const strip = /** @type {CanvasRenderingContext2D} */ (this.strip.getContext("2d"));
    strip.putImageData(image, 0, 0, 0, 0, pixels, lines.length);
    context.imageSmoothingEnabled = false;
    lines.forEach((line, i) => {
      context.drawImage(this.strip, 0, i, pixels, 1, 0, line.top - scroll, width, BOX);
    });
    this.paintNames(context, named, lines, scroll, hits);
  }

  /** @param {number} width @param {number} height */
  cleared(width, height) {
    if (!this.image || this.image.width !== width || this.image.height < height) {
      [this.strip.width, this.strip.height] = [width, height + 8];
      this.image = new ImageData(width, height + 8);
    } else {
      new Uint32Array(this.image.data.buffer).fill(0);
    }
    return this.image;
  }

  /**
   * @param {Uint32Array} words the image's pixels
   * @param {number} offset of the strip
   * @param {Line} line
   * @param {number} from
   * @param {number} perPixel
   * @param {number} width
   * @param {Hits | null} hits
   * @param {(left: number, right: number, row: number) => void} wideBox
   */
  paintLine(words, offset, line, from, perPixel, width, hits, wideBox) {
    const { rows, covered } = this.lanes;
    eachBox(this.lanes, line.lane, from, perPixel, width, (left, right, first, last, wide) => {
      const row = wide ? rows[first] : this.longest(first, last);
      const full = wide ? 1 : (covered[last] - covered[first]) / perPixel;
      const colour = this.colourOf(row, full, hits, first, last);
      // A box ends a pixel early to separate equal neighbours.
      const end = right - left > 3 && right < width ? right - 1 : right;
      words.fill(colour, offset + left, offset + end);
      if (wide) wideBox(left, right, row);
    });
  }

  /**
   * @param {number} row
   * @param {number} full 0 to 1
   * @param {Hits | null} hits
   * @param {number} first place
   * @param {number} last
   */
  colourOf(row, full, hits, first, last) {
    if (hits) return hits.before[last] > hits.before[first] ? this.theme.hit : this.theme.dim;
    const level = Math.min(Math.floor(full * LEVELS), LEVELS - 1);
    return this.theme.levels[(this.kind[row] * SHADES + this.shade(this.name[row])) * LEVELS + level];
  }

  /** @param {number} name */
  shade(name) {
    return (this.shades[name] ||= shadeOf(this.lanes.data.text(name)) + 1) - 1;
  }

  /** The row of the longest of some of the slices in a pixel. @param {number} first @param {number} last */
  longest(first, last) {
    const { start, end, rows } = this.lanes;
    const step = Math.max(1, Math.floor((last - first) / SAMPLES));
    let best = first;
    for (let at = first; at < last; at += step) {
      if (end[at] - start[at] > end[best] - start[best]) best = at;
    }
    return rows[best];
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number[]} named
   * @param {Line[]} lines
   * @param {number} scroll
   * @param {Hits | null} hits
   */
  paintNames(context, named, lines, scroll, hits) {
    context.font = FONT;
    context.textBaseline = "middle";
    for (let i = 0; i < named.length; i += 4) {
      const [line, left, right, row] = named.slice(i, i + 4);
      const top = lines[line].top - scroll;
      if (this.flags[row] & UNFINISHED) {
        context.fillStyle = this.theme.bad;
        context.fillRect(Math.max(right - 4, left), top, Math.min(3, right - left), BOX);
      }
      if (right - left < LEAST_TEXT) continue;
      context.fillStyle = !hits ? this.theme.text : hits.has(row) ? this.theme.hitText : this.theme.quiet;
      const room = right - left - 8;
      const text = this.clipped(context, this.name[row], room);
      if (text) context.fillText(text, left + 4, top + BOX / 2 + 0.5, room);
    }
  }

  /**
   * As much of a name as fits.
   * @param {CanvasRenderingContext2D} context
   * @param {number} name
   * @param {number} room CSS pixels
   */
  clipped(context, name, room) {
    let measured = this.texts.get(name);
    if (!measured) {
      const text = shown(this.lanes.data.text(name));
      measured = { text, width: context.measureText(text).width };
      this.texts.set(name, measured);
    }
    if (measured.width <= room) return measured.text;
    const count = Math.floor(((room - ELLIPSIS) / measured.width) * measured.text.length);
    return count < 2 ? "" : `${measured.text.slice(0, count)}…`;
  }
}

/** A name on one line, without invisible characters. @param {string} name */
export function shown(name) {
  const text = name.length > LONGEST_TEXT ? `${name.slice(0, LONGEST_TEXT)}…` : name;
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
}

/** The colours of the page's theme. @param {Record<string, number>} kinds */
function themeOf(kinds) {
  const back = parsed(themed("--back"));
  const text = parsed(themed("--text"));
  const colours = palette(kinds, text, isDark(back));
  const levels = new Uint32Array(colours.length * LEVELS);
  colours.forEach((colour, i) => {
    for (let level = 0; level < LEVELS; level++) {
      const share = FAINTEST + ((1 - FAINTEST) * (level + 1)) / LEVELS;
      levels[i * LEVELS + level] = packed(blended(colour, back, share));
    }
  });
  return {
    palette: colours,
    levels,
    hit: packed(parsed(themed("--hit"))),
    dim: packed(blended(text, back, DIMMED)),
    back: themed("--back"),
    panel: themed("--panel"),
    text: themed("--text"),
    bad: themed("--bad"),
    hitText: themed("--hit-text"),
    quiet: themed("--quiet"),
  };
}

/** @param {[number, number, number]} colour */
function isDark([red, green, blue]) {
  return red + green + blue < 384;
}
