"""Data of the timeline besides the events: its rows, its flows, and details of single slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.tree import lanes
from stepscope.analysis.calls.backward import forward_backward
from stepscope.analysis.calls.waiting import waiting_tracks
from stepscope.analysis.device.counters import device_counters
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.memory.usage import memory_events
from stepscope.report.base.payload import Payload
from stepscope.report.sections.events import origin_of
from stepscope.report.sections.threads import place_of, process_name, thread_name
from stepscope.trace.keys import (
    BYTES,
    GROUP_SIZE,
    IN_ELEMENTS,
    OUT_ELEMENTS,
    OWN_PARAMETERS,
    PARAMETERS,
)
from stepscope.trace.model import NO_SLICE, Int32, Int64, Trace
from stepscope.units import count_text

# The integer arguments in a slice's details.
_SHOWN = (
    BYTES,
    PARAMETERS,
    OWN_PARAMETERS,
    "registers per thread",
    "shared memory",
    GROUP_SIZE,
    IN_ELEMENTS,
    OUT_ELEMENTS,
)


def add_timeline(trace: Trace, payload: Payload) -> None:
    lane = lanes(trace)
    shift = lane - trace.slices.depth
    if shift.any():
        payload.add_column("timeline.shift", shift)
    groups = _groups(trace, lane)
    _add_counters(trace, payload, groups)
    payload.add_value("timeline.groups", groups)
    forward, backward = forward_backward(trace)
    payload.add_column("flows.backward", backward, ascending=True)
    payload.add_column("flows.forward", forward)
    _add_costs(trace, payload)
    integers = trace.slices.args.integers
    shown = [key for key in _SHOWN if key in integers and len(integers[key].rows)]
    payload.add_value("timeline.arguments", shown)
    for key in shown:
        payload.add_column(f"arguments.{key}.rows", integers[key].rows, ascending=True)
        payload.add_column(f"arguments.{key}.values", integers[key].values)


def _add_costs(trace: Trace, payload: Payload) -> None:
    """Add the floating-point operations of each slice, and the bytes it allocated and freed."""
    memory = memory_events(trace)
    sizes = memory.size[memory.slice != NO_SLICE]
    holders = memory.slice[memory.slice != NO_SLICE]
    count = len(trace.slices)

    def by_slice(bytes_of_event: Int64) -> Int64:
        return summed(holders, bytes_of_event, count)

    costs = {
        "flops": flops_of(trace),
        "allocated": by_slice(np.maximum(sizes, 0)),
        "freed": by_slice(np.maximum(-sizes, 0)),
    }
    for name, values in costs.items():
        rows = np.flatnonzero(values)
        payload.add_column(f"timeline.{name}.rows", rows, ascending=True)
        payload.add_column(f"timeline.{name}.values", values[rows])


def _groups(trace: Trace, lane: Int32) -> list[dict[str, Any]]:
    """Return the processes and devices that have slices, with their threads and streams.

    Waiting threads of a process form a folded group of their own, after all others.
    """
    highest = int(lane.max(initial=0)) + 1
    places = trace.slices.track.astype(np.int64) * highest + lane
    used = np.bincount(places, minlength=len(trace.tracks) * highest).reshape(-1, highest) > 0
    heights = np.where(used.any(axis=1), highest - used[:, ::-1].argmax(axis=1), 0)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    idle: dict[tuple[str, str], dict[str, Any]] = {}
    devices, waiting = _device_tracks(trace), waiting_tracks(trace)
    seen = np.flatnonzero(heights).tolist()
    for row in sorted(seen, key=lambda row: place_of(trace, row, row not in devices)):
        track, on_host = trace.tracks[row], row not in devices
        name = process_name(track, on_host)
        of = idle if waiting[row] else groups
        group = of.setdefault((track.pid, name), {"name": name, "tracks": []})
        shown = {"track": row, "name": thread_name(track, on_host), "lanes": int(heights[row])}
        group["tracks"].append(shown)
    for group in idle.values():
        many = count_text(len(group["tracks"]), "waiting thread")
        group |= {"name": f"{many}, {group['name']}" if len(groups) > 1 else many, "folded": True}
    return [*groups.values(), *idle.values()]


def _device_tracks(trace: Trace) -> set[int]:
    """Return the tracks with device work, and others of the same devices."""
    on_device = trace.slices.on_device
    with_work = set(np.unique(trace.slices.track[on_device]).tolist())
    named = {trace.tracks[row].process_label for row in with_work} - {"", "CPU"}
    return with_work | {
        row for row, track in enumerate(trace.tracks) if track.process_label in named
    }


def _add_counters(trace: Trace, payload: Payload, groups: list[dict[str, Any]]) -> None:
    """Add the counters of devices; a device without a group of rows gets one."""
    begin_ns = origin_of(trace)
    shown: list[dict[str, str]] = []
    for counter in device_counters(trace):
        name = process_name(trace.tracks[counter.track], on_host=False)
        if all(group["name"] != name for group in groups):
            groups.insert(0, {"name": name, "tracks": []})
        at = f"counters.{len(shown)}"
        payload.add_column(f"{at}.time", counter.time_ns - begin_ns, ascending=True)
        payload.add_column(f"{at}.value", counter.values)
        shown.append({"name": counter.name, "unit": counter.unit, "group": name})
    payload.add_value("timeline.counters", shown)
