// Draws the levels of memory by category. Python made every number; here they are only summed up
// along time, searched and painted.

const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("canvas");
const tip = document.getElementById("tip");
const pen = canvas.getContext("2d");

const MARGIN = { left: 76, right: 12, top: 26, bottom: 30 };
const SHORTEST_NS = 20; // the narrowest view

const names = data.categories;
const times = Float64Array.from(data.time_ns);
const levels = summedLevels();
const shown = names.map(() => true);
let totals = summedTotals();
let peakRow = highestRow();

const whole = { from: 0, to: Math.max(data.duration_ns, 1) };
let view = { ...whole };
let pointer = null; // {x, y} in CSS pixels, over the plot
let dragFrom = null; // the x at which a drag began
let columns = []; // the row of data that each column of pixels shows

function summedLevels() {
  const sums = names.map((_, category) => {
    const column = new Float64Array(times.length);
    column[0] = data.base[category];
    return column;
  });
  for (let row = 0; row < times.length; row++) {
    if (row > 0) for (const column of sums) column[row] = column[row - 1];
    sums[data.category[row]][row] += data.bytes[row];
  }
  return sums;
}

function summedTotals() {
  const sum = new Float64Array(times.length);
  levels.forEach((column, category) => {
    if (shown[category]) for (let row = 0; row < sum.length; row++) sum[row] += column[row];
  });
  return sum;
}

function highestRow(from = 0, to = times.length) {
  let best = from;
  for (let row = from + 1; row < to; row++) if (totals[row] > totals[best]) best = row;
  return best;
}

/** Return the first row at or after a time. */
function rowFrom(time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(2)} ${units[unit]}`;
}

function timeText(ns, stepNs = 0) {
  const [scale, unit] =
    Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = stepNs ? Math.max(0, Math.ceil(Math.log10(scale / stepNs))) : 3;
  return `${(ns / scale).toFixed(Math.min(digits, 9))} ${unit}`;
}

/** Return round numbers that cut a range into about ``count`` parts. */
function ticks(from, to, count, base) {
  const rough = (to - from) / count;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const factors = base === 2 ? [1, 2] : [1, 2, 5, 10];
  const step = power * factors.find((factor) => power * factor >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return { step, found };
}

function plot() {
  const box = canvas.getBoundingClientRect();
  return {
    width: Math.max(1, Math.floor(box.width - MARGIN.left - MARGIN.right)),
    height: Math.max(1, box.height - MARGIN.top - MARGIN.bottom),
  };
}

const timeAt = (x) => view.from + ((x - MARGIN.left) / plot().width) * (view.to - view.from);
const xAt = (time) => MARGIN.left + ((time - view.from) / (view.to - view.from)) * plot().width;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

/** Choose for each column of pixels the row with the highest level within it. */
function chosenRows(width) {
  const rows = new Int32Array(width);
  const perPixel = (view.to - view.from) / width;
  let first = rowFrom(view.from);
  for (let x = 0; x < width; x++) {
    const end = rowFrom(view.from + (x + 1) * perPixel);
    rows[x] = highestRow(Math.max(first - 1, 0), end); // the level at its left edge counts too
    first = end;
  }
  return rows;
}

function draw() {
  const { width, height } = plot();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  columns = chosenRows(width);
  let top = 1;
  for (const row of columns) top = Math.max(top, totals[row]);
  top *= 1.06;
  const yAt = (bytes) => MARGIN.top + Math.round(height * (1 - bytes / top));
  drawAxes(width, height, top, yAt);
  drawAreas(width, yAt);
  drawPeak(height, yAt);
  drawPointer(height);
  tell();
}

function drawAxes(width, height, top, yAt) {
  pen.strokeStyle = colour("grid");
  pen.fillStyle = colour("faint");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const bytes of ticks(0, top, 6, 2).found) {
    const y = yAt(bytes) + 0.5;
    line(MARGIN.left, y, MARGIN.left + width, y);
    pen.fillText(bytesText(bytes), MARGIN.left - 8, y);
  }
  pen.textBaseline = "top";
  pen.textAlign = "center";
  const { step, found } = ticks(view.from, view.to, Math.max(2, width / 130), 10);
  for (const time of found) {
    const x = Math.round(xAt(time)) + 0.5;
    line(x, MARGIN.top + height, x, MARGIN.top + height + 5);
    pen.fillText(timeText(time, step), x, MARGIN.top + height + 9);
  }
}

function line(x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

/** Paint runs of columns with the same row as one rectangle a category. */
function drawAreas(width, yAt) {
  const colours = names.map(colour);
  for (let x = 0; x < width; ) {
    const row = columns[x];
    let end = x + 1;
    while (end < width && columns[end] === row) end++;
    let below = 0;
    levels.forEach((column, category) => {
      if (!shown[category] || !column[row]) return;
      const y = yAt(below + column[row]);
      pen.fillStyle = colours[category];
      pen.fillRect(MARGIN.left + x, y, end - x, yAt(below) - y);
      below += column[row];
    });
    x = end;
  }
}

function drawPeak(height, yAt) {
  const x = xAt(times[peakRow]);
  if (x < MARGIN.left || x > MARGIN.left + plot().width + 1) return;
  pen.strokeStyle = pen.fillStyle = colour("mark");
  pen.setLineDash([4, 3]);
  line(x, MARGIN.top - 6, x, MARGIN.top + height);
  pen.setLineDash([]);
  pen.beginPath();
  pen.arc(x, yAt(totals[peakRow]), 3.5, 0, 7);
  pen.fill();
  const text = `peak ${bytesText(totals[peakRow])}`;
  const half = pen.measureText(text).width / 2;
  const right = MARGIN.left + plot().width - half;
  pen.textAlign = "center";
  pen.textBaseline = "bottom";
  pen.fillText(text, Math.min(Math.max(x, MARGIN.left + half), right), MARGIN.top - 7);
}

function drawPointer(height) {
  if (!pointer) return;
  pen.strokeStyle = colour("ink");
  line(pointer.x, MARGIN.top, pointer.x, MARGIN.top + height);
  if (dragFrom === null) return;
  pen.globalAlpha = 0.15;
  pen.fillStyle = colour("ink");
  pen.fillRect(dragFrom, MARGIN.top, pointer.x - dragFrom, height);
  pen.globalAlpha = 1;
}

/** Write the numbers under the pointer, or those of the peak, into the legend. */
function tell() {
  let row = peakRow;
  document.getElementById("when").textContent = "at the peak";
  tip.hidden = !pointer;
  if (pointer) {
    const column = Math.min(Math.max(Math.floor(pointer.x - MARGIN.left), 0), columns.length - 1);
    row = columns[column];
    document.getElementById("when").textContent = `at ${timeText(timeAt(pointer.x))}`;
    tip.textContent = `${timeText(timeAt(pointer.x))}: ${bytesText(totals[row])}`;
    const isRight = pointer.x > canvas.clientWidth / 2;
    tip.style.left = isRight ? "auto" : `${pointer.x + 10}px`;
    tip.style.right = isRight ? `${canvas.clientWidth - pointer.x + 10}px` : "auto";
  }
  names.forEach((name, category) => {
    const cell = document.getElementById(`bytes-${name}`);
    cell.textContent = bytesText(levels[category][row]);
  });
  document.getElementById("total").textContent = bytesText(totals[row]);
}

function zoomTo(from, to) {
  const span = Math.min(Math.max(to - from, SHORTEST_NS), whole.to);
  const start = Math.min(Math.max(from, whole.from), whole.to - span);
  view = { from: start, to: start + span };
  draw();
}

function zoomBy(factor, around = (view.from + view.to) / 2) {
  zoomTo(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

const moveBy = (part) => {
  const shift = part * (view.to - view.from);
  zoomTo(view.from + shift, view.to + shift);
};

function pointerAt(event) {
  const box = canvas.getBoundingClientRect();
  const right = MARGIN.left + plot().width;
  const x = Math.min(Math.max(event.clientX - box.left, MARGIN.left), right);
  return { x, y: event.clientY - box.top };
}

canvas.addEventListener("pointermove", (event) => {
  pointer = pointerAt(event);
  draw();
});
canvas.addEventListener("pointerleave", () => {
  if (dragFrom !== null) return;
  pointer = null;
  draw();
});
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointer = pointerAt(event);
  dragFrom = pointer.x;
});
canvas.addEventListener("pointerup", (event) => {
  const [a, b] = [dragFrom ?? 0, pointerAt(event).x].sort((one, other) => one - other);
  const wasDrag = dragFrom !== null && b - a > 4;
  dragFrom = null;
  if (wasDrag) zoomTo(timeAt(a), timeAt(b));
  else draw();
});
canvas.addEventListener("dblclick", () => zoomTo(whole.from, whole.to));
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const amount = event.deltaY || event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) moveBy(amount / 1000);
    else zoomBy(Math.exp(amount / 400), timeAt(pointerAt(event).x));
  },
  { passive: false },
);

const keys = {
  "+": () => zoomBy(0.5),
  "=": () => zoomBy(0.5),
  "-": () => zoomBy(2),
  0: () => zoomTo(whole.from, whole.to),
  ArrowLeft: () => moveBy(-0.2),
  ArrowRight: () => moveBy(0.2),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
document.getElementById("zoom-in").addEventListener("click", keys["+"]);
document.getElementById("zoom-out").addEventListener("click", keys["-"]);
document.getElementById("whole").addEventListener("click", keys[0]);

/** Make a line of the legend: a switch, the colour, the name and the place for its bytes. */
function legendRow(name, category) {
  const row = document.createElement("tr");
  const head = row.appendChild(document.createElement("th"));
  const label = head.appendChild(document.createElement("label"));
  const box = label.appendChild(document.createElement("input"));
  box.type = "checkbox";
  box.checked = true;
  box.addEventListener("change", () => {
    shown[category] = box.checked;
    totals = summedTotals();
    peakRow = highestRow();
    draw();
  });
  label.appendChild(document.createElement("i")).style.background = `var(--${name})`;
  label.appendChild(document.createElement("span")).textContent = name.replaceAll("_", " ");
  row.appendChild(document.createElement("td")).id = `bytes-${name}`;
  return row;
}

// Top to bottom as the areas lie.
const rows = names.map(legendRow).reverse();
document.querySelector("#legend tbody").append(...rows);
document.getElementById("device").textContent = data.device;
document.title = `Memory of ${data.device}`;
const where = data.peak.where ? ` in ${data.peak.where}` : "";
document.getElementById("peak").textContent =
  `peak ${bytesText(data.peak.bytes)} at ${timeText(data.peak.time_ns)}${where}`;

new ResizeObserver(draw).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
