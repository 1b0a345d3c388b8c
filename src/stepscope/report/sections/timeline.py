"""What the timeline draws beside the events: its rows, its flows, and details of single slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.flows import forward_backward
from stepscope.analysis.host.lanes import lanes
from stepscope.analysis.memory.usage import memory_events
from stepscope.trace.model import DEVICE_KINDS, NO_SLICE

if TYPE_CHECKING:
    from stepscope.report.payload import Payload
    from stepscope.trace.model import Int32, Int64, Trace, Track

# The integer arguments worth a line in a slice's details.
_SHOWN = (
    "bytes",
    "Parameters",
    "Own parameters",
    "registers per thread",
    "shared memory",
    "Group size",
    "In msg nelems",
    "Out msg nelems",
)
_LAST = 1 << 62


def add_timeline(trace: Trace, payload: Payload) -> None:
    """Add the rows in the order to show them, backward's flows, and arguments that are numbers."""
    lane = lanes(trace)
    shift = lane - trace.slices.depth
    if shift.any():
        payload.add_column("timeline.shift", shift)
    payload.add_value("timeline.groups", _groups(trace, lane))
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
    """Add the operations, and the bytes that each slice itself allocated and freed."""
    memory = memory_events(trace)
    sizes = memory.size[memory.slice != NO_SLICE]
    holders = memory.slice[memory.slice != NO_SLICE]
    count = len(trace.slices)

    def by_slice(bytes_of_event: Int64) -> Int64:
        return np.bincount(holders, bytes_of_event, count).astype(np.int64)

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
    """Return the processes and devices that have slices, with their threads and streams."""
    highest = int(lane.max(initial=0)) + 1
    places = trace.slices.track.astype(np.int64) * highest + lane
    used = np.bincount(places, minlength=len(trace.tracks) * highest).reshape(-1, highest) > 0
    heights = np.where(used.any(axis=1), highest - used[:, ::-1].argmax(axis=1), 0)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    devices = _device_tracks(trace)
    seen = np.flatnonzero(heights).tolist()
    for row in sorted(seen, key=lambda row: _place(trace, row, row not in devices)):
        track, on_host = trace.tracks[row], row not in devices
        name = _process(track, on_host)
        group = groups.setdefault((track.pid, name), {"name": name, "tracks": []})
        shown = {"track": row, "name": _thread(track, on_host), "lanes": int(heights[row])}
        group["tracks"].append(shown)
    return list(groups.values())


def _device_tracks(trace: Trace) -> set[int]:
    """Return the tracks with device work, and those that bear the same device's name."""
    on_device = np.isin(trace.slices.kind, DEVICE_KINDS)
    found = set(np.unique(trace.slices.track[on_device]).tolist())
    named = {trace.tracks[row].process_label for row in found} - {"", "CPU"}
    return found | {row for row, track in enumerate(trace.tracks) if track.process_label in named}


def _process(track: Track, on_host: bool) -> str:
    if on_host:
        is_number = track.pid.lstrip("-").isdecimal()
        return f"{track.process_name or ('process' if is_number else '')} {track.pid}".strip()
    return track.process_label or track.process_name or f"device {track.pid}"


def _thread(track: Track, on_host: bool) -> str:
    return track.thread_name.strip() or f"{'thread' if on_host else 'stream'} {track.tid}"


def _place(trace: Trace, row: int, on_host: bool) -> tuple[bool, int, str, int, int, int]:
    """Return where a track stands: as its file asks, else by number, words at the end.

    Devices stand above: there are few, and threads with Python's frames fill more than a screen.
    """
    track = trace.tracks[row]
    process = _LAST if track.process_sort is None else track.process_sort
    thread = _LAST if track.thread_sort is None else track.thread_sort
    number = int(track.tid) if track.tid.isascii() and track.tid.isdecimal() else _LAST
    return on_host, process, track.pid, thread, number, row
