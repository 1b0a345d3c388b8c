// The lines that cost something: by file, in order, with the operators of each.

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("../decode.js").Column} Column */
/** @typedef {"self" | "total" | "python" | "native" | "operator" | "waiting" | "device" | "device_total" | "bytes" | "bytes_total"} Measure */
/** @typedef {{file: number, name: string, first: number, last: number, cost: number}} File rows first to last - 1 */

/** What each measure is called, and what it means. @type {[Measure, string, string][]} */
export const MEASURES = [
  ["self", "Self", "Time of the line itself, including the library code that it calls"],
  ["total", "Total", "With your own functions that it calls"],
  ["python", "Python", "Self time in Python code"],
  ["native", "Native", "Self time in functions written in C that are no operators"],
  ["operator", "Operators", "Self time in operators"],
  ["waiting", "Waiting", "Self time in which the thread waited: for a lock, a file, a timer"],
  ["device", "Device", "Time of the device work that it launched"],
  ["device_total", "Total device", "With your own functions that it calls"],
  ["bytes", "Allocated", "Bytes that it allocated"],
  ["bytes_total", "Total allocated", "With your own functions that it calls"],
];
const TIMES = new Set(["self", "total", "python", "native", "operator", "waiting"]); // of samples
const PARTS = new Set(["python", "native", "operator", "waiting"]); // of the self time

/** Whether a measure is a part of the self time. @param {Measure} measure */
export const isPart = (measure) => PARTS.has(measure);

export class Lines {
  /** @param {Data} data @param {string} [when] "steps" or "run" */
  constructor(data, when = "run") {
    const column = (/** @type {string} */ name) => data.column(`source.${name}`);
    this.file = column("file");
    this.line = column("line");
    this.calls = column("calls");
    const zeros = new Uint8Array(this.file.length);
    const measured = MEASURES.map(([id]) => {
      const values = column(when === "steps" && TIMES.has(id) ? `steps.${id}` : id);
      return [id, values.length ? values : zeros];
    });
    /** @type {Record<Measure, Column>} */
    this.values = Object.fromEntries(measured);
    /** @type {string[]} */
    this.functions = data.value("source.functions") ?? [];
    /** @type {string[]} */
    this.names = data.value("source.files") ?? [];
    this.operatorLine = column("operators.line");
    /** Where the parts of lines stand: those of samples. */
    this.parts = when === "steps" ? "source.steps.parts" : "source.parts";
    this.partLine = data.column(`${this.parts}.line`);
  }

  /** The measures that the trace has values for. */
  measures() {
    return MEASURES.filter(([id]) => id === "self" || this.values[id].some((value) => value > 0));
  }

  /** The measures shown for a line: each kind of cost once, and the chosen one. @param {Measure} chosen */
  beside(chosen) {
    const hidden = new Set(["device_total", "bytes_total"]);
    if (hidden.delete(chosen)) hidden.add(chosen.replace("_total", ""));
    const measures = this.measures();
    // A self time with a single part equals it.
    const apart = measures.filter(([id]) => isPart(id)).length > 1;
    return measures.filter(([id]) => !hidden.has(id) && (apart || !isPart(id)));
  }

  /** The cost of a file; totals are not summed, since inner lines count for outer ones. @param {Measure} measure @returns {File[]} the most expensive first */
  files(measure) {
    const own = /** @type {Measure} */ (measure.replace("_total", "").replace("total", "self"));
    const values = this.values[own];
    /** @type {File[]} */
    const files = this.names.map((name, file) => ({ file, name, first: this.file.length, last: 0, cost: 0 }));
    for (let row = 0; row < this.file.length; row++) {
      const file = files[this.file[row]];
      file.first = Math.min(file.first, row);
      file.last = row + 1;
      file.cost += values[row];
    }
    return files.sort((a, b) => b.cost - a.cost || (a.name < b.name ? -1 : 1));
  }

  /** The rows of a file, the most expensive first. @param {File} file @param {Measure} measure */
  hottest(file, measure) {
    const rows = Array.from({ length: file.last - file.first }, (_, i) => file.first + i);
    return rows.sort((a, b) => this.values[measure][b] - this.values[measure][a] || a - b);
  }

  /** The row of a line, -1 without. @param {File} file @param {number} line */
  rowOf(file, line) {
    for (let row = file.first; row < file.last; row++) if (this.line[row] === line) return row;
    return -1;
  }

  /** The operators of a line: rows of the operators' columns. @param {number} row */
  operators(row) {
    return run(this.operatorLine, row);
  }

  /** What a line's samples ran: rows of the parts' columns. @param {number} row */
  partsOf(row) {
    return run(this.partLine, row);
  }
}

/** Where a value stands. @param {ArrayLike<number>} column ascending @param {number} value */
function run(column, value) {
  let first = 0;
  while (first < column.length && column[first] < value) first++;
  let last = first;
  while (last < column.length && column[last] === value) last++;
  return { first, last };
}

/** The lines of a text, tabs as spaces; what follows a line's end belongs to the next. @param {string} text */
export function textLines(text) {
  // As in Python, neither form feeds nor Unicode separators end a line.
  const lines = text.split(/\r\n|\r|\n/);
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

/**
 * The numbers of the lines with a text, ignoring case.
 * @param {string[]} lines
 * @param {string} query
 */
export function linesWith(lines, query) {
  const wanted = query.toLowerCase();
  if (!wanted) return [];
  return lines.flatMap((line, i) => (line.toLowerCase().includes(wanted) ? [i + 1] : []));
}
