// The page's data: named columns and values, unpacked from the block that payload.py wrote.

/** @typedef {Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array} Column */
/** @typedef {{type: string, length: number, offset: number, codec: string}} Place */

const TYPES = {
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};

export class Data {
  /**
   * @param {{columns: Record<string, Place>, values: Record<string, any>}} header
   * @param {Uint8Array} bytes the columns
   */
  constructor(header, bytes) {
    this.header = header;
    this.bytes = bytes;
    /** @type {Map<string, Column>} */
    this.known = new Map();
    /** @type {Map<number, string>} */
    this.texts = new Map();
    this.decoder = new TextDecoder();
  }

  /** @param {string} name */
  value(name) {
    return this.header.values[name];
  }

  /** @param {string} name */
  has(name) {
    return name in this.header.columns || name in this.header.values;
  }

  /**
   * A column; empty when the page has none of that name.
   * @param {string} name
   * @returns {Column}
   */
  column(name) {
    let column = this.known.get(name);
    if (!column) {
      const place = this.header.columns[name];
      column = place ? unpacked(this.bytes, place) : new Uint8Array(0);
      this.known.set(name, column);
    }
    return column;
  }

  /**
   * The text with that id.
   * @param {number} id
   */
  text(id) {
    let text = this.texts.get(id);
    if (text === undefined) {
      const offsets = this.column("strings.offsets");
      const bytes = /** @type {Uint8Array} */ (this.column("strings.bytes"));
      text = this.decoder.decode(bytes.subarray(offsets[id], offsets[id + 1]));
      this.texts.set(id, text);
    }
    return text;
  }

  /** The row of a slice's parent, -1 without. @param {number} row */
  parent(row) {
    const up = this.column("slices.up")[row];
    return up ? row - up : -1;
  }

  /** ns. @param {number} row */
  selfTime(row) {
    return this.column("slices.duration")[row] - this.column("slices.self")[row];
  }

  /** The texts of a stack's frames, the innermost first. @param {number} stack */
  frames(stack) {
    const up = this.column("stacks.up");
    const frame = this.column("stacks.frame");
    const frames = [];
    for (let row = stack; row; row -= up[row]) frames.push(this.text(frame[row]));
    return frames;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {Place} place
 * @returns {Column}
 */
function unpacked(bytes, place) {
  const type = TYPES[/** @type {keyof typeof TYPES} */ (place.type)];
  const column = new type(place.length);
  const width = type.BYTES_PER_ELEMENT;
  const planes = bytes.subarray(place.offset, place.offset + place.length * width);
  const target = new Uint8Array(column.buffer);
  for (let plane = 0; plane < width; plane++) {
    const start = plane * place.length;
    for (let i = 0, at = plane; i < place.length; i++, at += width) target[at] = planes[start + i];
  }
  return place.codec === "sums" ? summed(column) : column;
}

/** @param {Column} column */
function summed(column) {
  const sums = new Float64Array(column.length);
  let sum = 0;
  for (let i = 0; i < column.length; i++) sums[i] = sum += column[i];
  return sums;
}

/**
 * @param {string} base64 gzip in base64
 * @returns {Promise<Data>}
 */
export async function decode(base64) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is older than 2023; open the file in a newer one");
  }
  try {
    return unframed(await inflated(bytesOf(base64)));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`the file is damaged or incomplete; write it again (${why})`);
  }
}

/** @param {Uint8Array} bytes gzip */
async function inflated(bytes) {
  const stream = new Blob([/** @type {any} */ (bytes)])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The data in a block that payload.py packed. @param {Uint8Array} block */
export function unframed(block) {
  const headerLength = new DataView(block.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(block.subarray(4, 4 + headerLength)));
  if (!header.columns || !header.values) throw new Error("there are no columns in it");
  return new Data(header, block.subarray(4 + headerLength));
}

/** @param {string} base64 */
function bytesOf(base64) {
  const native = /** @type {any} */ (Uint8Array).fromBase64;
  if (native) return /** @type {Uint8Array} */ (native.call(Uint8Array, base64));
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
