// Search: the names that contain the text, and the slices that have those names.

/** @typedef {import("./lanes.js").Lanes} Lanes */
/** @typedef {import("../decode.js").Data} Data */

/** The ids of the names that slices have. @param {Data} data */
export function distinctNames(data) {
  const name = data.column("slices.name");
  const seen = new Uint8Array(Math.max(data.column("strings.offsets").length, 1));
  for (let row = 0; row < name.length; row++) seen[name[row]] = 1;
  const ids = [];
  for (let id = 0; id < seen.length; id++) if (seen[id]) ids.push(id);
  return ids;
}

export class Hits {
  /**
   * @param {Lanes} lanes
   * @param {number[]} names ids of all names
   * @param {string} text sought in any case
   */
  constructor(lanes, names, text) {
    const { data, rows, count } = lanes;
    const name = data.column("slices.name");
    const wanted = text.toLowerCase();
    this.named = new Uint8Array(Math.max(data.column("strings.offsets").length, 1));
    for (const id of names) if (data.text(id).toLowerCase().includes(wanted)) this.named[id] = 1;
    /** The number of hits before a place, which tells whether a pixel contains one. */
    this.before = new Uint32Array(count + 1);
    for (let at = 0; at < count; at++) {
      this.before[at + 1] = this.before[at] + this.named[name[rows[at]]];
    }
    this.count = this.before[count];
    this.name = name;
  }

  /** Whether a slice is one. @param {number} row */
  has(row) {
    return this.named[this.name[row]] === 1;
  }

  /**
   * The next or previous hit in order of start, cyclic; -1 without hits.
   * @param {number} row -1: before the first
   * @param {1 | -1} direction
   */
  next(row, direction) {
    const count = this.name.length;
    for (let i = 1; i <= count; i++) {
      const at = (((row + direction * i) % count) + count) % count;
      if (this.has(at)) return at;
    }
    return -1;
  }

  /** How many hits start before a row's slice. @param {number} row */
  rank(row) {
    let rank = 0;
    for (let i = 0; i < row; i++) rank += this.named[this.name[i]];
    return rank;
  }
}
