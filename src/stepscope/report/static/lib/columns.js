// The tables of the page's data, as report/base/payload.py wrote them; a text is decoded when it is seen.

/** @typedef {import("../decode.js").Data} Data */
/** @typedef {import("./rows.js").Rows} Rows */
/** @typedef {import("./rows.js").Column} Column */

/** Whether there is a table with anything in it. @param {Data} data @param {string} name */
export function hasRows(data, name) {
  return data.value(`${name}.rows`) > 0;
}

/**
 * Texts by number. @param {Data} data @param {string} name
 * @returns {(code: number) => string}
 */
export function textsOf(data, name) {
  const bytes = /** @type {Uint8Array} */ (data.column(`${name}.texts`));
  const ends = data.column(`${name}.ends`);
  const decoder = new TextDecoder();
  /** @type {(string | undefined)[]} */
  const decoded = new Array(ends.length);
  return (code) => (decoded[code] ??= decoder.decode(bytes.subarray(code ? ends[code - 1] : 0, ends[code])));
}

/** A table of the data. @param {Data} data @param {string} name @returns {Rows} */
export function rowsOf(data, name) {
  /** @type {Map<string, (row: number) => number | string>} */
  const readers = new Map();
  /** @param {string} key */
  function reader(key) {
    const column = data.column(`${name}.${key}`);
    if (!data.has(`${name}.${key}.ends`)) return (/** @type {number} */ row) => column[row] ?? NaN;
    const texts = textsOf(data, `${name}.${key}`);
    return (/** @type {number} */ row) => texts(column[row]);
  }
  return {
    length: data.value(`${name}.rows`) ?? 0,
    value(key, row) {
      let read = readers.get(key);
      if (!read) readers.set(key, (read = reader(key)));
      return read(row);
    },
  };
}

/** What the columns of tables are, as measures state it. @param {Data} data @param {string} name @param {string} [bar] the column with bars @returns {Column[]} */
export function headingsOf(data, name, bar) {
  /** @type {Column[]} */
  const columns = data.value(`${name}.headings`) ?? [];
  return columns.map((column) => ({ ...column, bar: column.key === bar }));
}

/** Those columns that the table has. @param {Data} data @param {string} name @param {Column[]} columns */
export function columnsOf(data, name, columns) {
  return columns.filter((column) => data.has(`${name}.${column.key}`));
}

/** Some rows of a table. @param {Rows} rows @param {number[]} picked @returns {Rows} */
export function subset(rows, picked) {
  return { length: picked.length, value: (key, row) => rows.value(key, picked[row]) };
}

/** The rows that hold a text. @param {Rows} rows @param {string} key @param {string} text */
export function rowsWith(rows, key, text) {
  const matches = [];
  for (let row = 0; row < rows.length; row++) if (rows.value(key, row) === text) matches.push(row);
  return matches;
}
