// The scope of a page: the steady steps or the whole run, all threads or some of them.

import { select } from "stepscope/dom.js";

/** @typedef {import("./decode.js").Data} Data */
/** @typedef {{track: number, process: string, name: string, waits: boolean, helps: boolean}} Thread helps: runs no Python, but works for another thread */
/** @typedef {{when: string, where: string}} Scope where: "", the name of a process, or a track's number */

const WORDS = { steps: "steady steps", run: "whole run" };

/**
 * The tracks of a place, null: all of them. Without a place, all but helpers: who waits for them has
 * their time already.
 * @param {Data} data
 * @param {string} where
 * @returns {Set<number> | null}
 */
export function tracksOf(data, where) {
  const threads = threadsOf(data);
  if (!where && !threads.some(({ helps }) => helps)) return null;
  const isWanted = (/** @type {Thread} */ { track, process, helps }) => String(track) === where || ((process === where || !where) && !helps);
  const chosen = threads.filter(isWanted);
  return chosen.length ? new Set(chosen.map(({ track }) => track)) : null;
}

/** @param {Data} data @returns {Thread[]} */
export function threadsOf(data) {
  return data.value("threads") ?? [];
}

/** The process or the thread in words. @param {Data} data @param {string} where */
export function placeName(data, where) {
  const thread = threadsOf(data).find(({ track }) => String(track) === where);
  return thread ? thread.name : where;
}

/**
 * The choice of the time; null where there is none.
 * @param {string[]} times "steps" and "run", as far as they are known
 * @param {string} chosen
 * @param {(value: string) => void} change
 */
export function whenChoice(times, chosen, change) {
  if (times.length < 2) return null;
  return select("Time", times.map((when) => [when, WORDS[/** @type {keyof typeof WORDS} */ (when)]]), chosen, change);
}

/**
 * The choice of the threads; null where there is only one.
 * @param {Data} data
 * @param {(where: string) => boolean} hasScope whether the page has numbers for that place
 * @param {string} chosen
 * @param {(value: string) => void} change
 */
export function whereChoice(data, hasScope, chosen, change) {
  const threads = threadsOf(data);
  const processes = [...new Set(threads.map(({ process }) => process))];
  const several = processes.length > 1;
  /** @type {[string, string][]} */
  const places = [["", several ? "all processes" : "all threads"]];
  for (const process of processes) {
    if (several && hasScope(process)) places.push([process, process]);
    for (const { track, name, waits, helps } of threads.filter((thread) => thread.process === process)) {
      const words = `${several ? "\u00a0\u00a0" : ""}${name}${waits ? " (only waits)" : helps ? " (no Python)" : ""}`;
      if (hasScope(String(track))) places.push([String(track), words]);
    }
  }
  return places.length > 2 ? select("Thread", places, chosen, change) : null;
}
