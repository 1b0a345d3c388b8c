// Prints what decode.js makes of a block of data on standard input, for the tests in Python.
// Use: node --import ./tests/js/loader.mjs tests/js/decoded.mjs < block

import { decode } from "stepscope/decode.js";

const pieces = [];
for await (const piece of process.stdin) pieces.push(piece);

try {
  const data = await decode(Buffer.concat(pieces).toString("latin1").trim());
  const columns = Object.keys(data.header.columns).map((name) => {
    const column = data.column(name);
    // As text: JSON has neither NaN nor infinity.
    return [name, { type: column.constructor.name, values: Array.from(column, String) }];
  });
  const texts = Array.from({ length: Math.max(0, data.column("strings.offsets").length - 1) }, (_, id) => data.text(id));
  console.log(JSON.stringify({ columns: Object.fromEntries(columns), values: data.header.values, texts }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error) }));
}
