// The self values of a flame graph's nodes: sums over the chosen cells.

/** @typedef {import("../decode.js").Data} Data */
/**
 * @typedef {object} Asked
 * @property {string} metric
 * @property {boolean} steps only what is in the steady steps
 * @property {boolean} waiting also the time in which threads waited
 * @property {Set<number> | null} tracks of these threads, null: of all
 */

/** The times that a metric is known for. @param {Data} data @param {string} name of the graph @param {string} metric */
export function timesOf(data, name, metric) {
  return data.has(`${name}.cells.${metric}.steps`) ? ["steps", "run"] : ["run"];
}

/** Whether any thread waited anywhere. @param {Data} data @param {string} name */
export function hasWaiting(data, name) {
  return data.column(`${name}.cells.waiting`).some((waits) => waits > 0);
}

/**
 * The self value of each node, and how much of it is waiting.
 * @param {Data} data
 * @param {string} name of the graph
 * @param {Asked} asked
 */
export function ownOf(data, name, { metric, steps, waiting, tracks }) {
  const count = data.column(`${name}.up`).length;
  const [own, waits] = [new Float64Array(count), new Float64Array(count)];
  const node = data.column(`${name}.cells.node`);
  const track = data.column(`${name}.cells.track`);
  const isWaiting = data.column(`${name}.cells.waiting`);
  const amount = data.column(`${name}.cells.${metric}${steps ? ".steps" : ""}`);
  for (let cell = 0; cell < amount.length; cell++) {
    if (isWaiting[cell] && !waiting) continue;
    if (tracks && !tracks.has(track[cell])) continue;
    own[node[cell]] += amount[cell];
    if (isWaiting[cell]) waits[node[cell]] += amount[cell];
  }
  return { own, waits };
}
