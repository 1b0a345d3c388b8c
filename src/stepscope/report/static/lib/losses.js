// What a report lacks of its recording, as sentences; "" if nothing.

import { bytes, count, number } from "stepscope/format.js";

/** @typedef {import("../decode.js").Data} Data */

/** Events that were not recorded, which no page has. @param {Data} data */
export function lostEvents(data) {
  const lost = data.value("overview.losses");
  if (!lost) return "";
  if (lost.policy === "ring") {
    return `${count(lost.events, "earlier event")} dropped: only the most recent part of the recording is kept.`;
  }
  const which = lost.policy ? `the ${lost.policy} ` : "";
  const limit = lost.limit_bytes ? ` of ${bytes(lost.limit_bytes)}` : "";
  return `Lost: ${which}${count(lost.events, "event")}; the memory limit${limit} was reached. Sums do not include them.`;
}

/** Events that are only in sums: pages of single events lack them. @param {Data} data */
export function lowerDetail(data) {
  const leftOut = data.value("left_out");
  if (!leftOut) return "";
  const events = data.value("overview").events;
  return `Lower detail: the timeline holds ${number(events - leftOut)} of ${number(events)} events, the longest at each moment. Sums include every event.`;
}
