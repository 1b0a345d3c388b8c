"""The events themselves: what the timeline draws, and what every other page refers to by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.launches import launched_work
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from stepscope.report.payload import Payload
    from stepscope.trace.model import Trace


def add_events(trace: Trace, payload: Payload) -> None:
    """Add slices (rows in order of start), tracks, strings, stacks and launches.

    Times are ns since ``origin_ns``, the trace's first moment.
    """
    slices = trace.slices
    origin_ns = origin_of(trace)
    payload.add_value("origin_ns", str(origin_ns))
    payload.add_value("kinds", {kind.name: int(kind) for kind in SliceKind})
    payload.add_column("slices.start", slices.start_ns - origin_ns, ascending=True)
    payload.add_column("slices.duration", slices.duration_ns)
    payload.add_column("slices.self", slices.duration_ns - slices.self_ns)  # see decode.js
    payload.add_column("slices.name", slices.name)
    payload.add_column("slices.track", slices.track)
    payload.add_column("slices.kind", slices.kind)
    payload.add_column("slices.flags", slices.flags)
    payload.add_column("slices.depth", slices.depth)
    rows = np.arange(len(slices), dtype=np.int64)
    payload.add_column("slices.up", np.where(slices.parent < 0, 0, rows - slices.parent))
    payload.add_column("slices.step", slices.step.astype(np.int64) + 1)
    payload.add_column("slices.stack", slices.stack)
    payload.add_column("slices.rest", slices.args.rest)
    work, call = launched_work(trace)
    payload.add_column("launches.work", work, ascending=True)
    payload.add_column("launches.call", call)
    payload.add_column("stacks.up", np.arange(len(trace.stacks)) - trace.stacks.parent)
    payload.add_column("stacks.frame", trace.stacks.frame)
    add_strings(trace, payload)
    payload.add_value("tracks", [_track(trace, row) for row in range(len(trace.tracks))])


def add_strings(trace: Trace, payload: Payload) -> None:
    """Add the texts that other columns name by their ids."""
    payload.add_column("strings.bytes", np.frombuffer(trace.strings.blob, np.uint8))
    payload.add_column("strings.offsets", trace.strings.offsets, ascending=True)


def origin_of(trace: Trace) -> int:
    """Return the first moment of the page, on the trace's clock."""
    first = int(trace.slices.start_ns[0]) if len(trace.slices) else trace.info.start_ns
    return min(trace.info.start_ns or first, first)


def _track(trace: Trace, row: int) -> dict[str, str]:
    track = trace.tracks[row]
    return {
        "pid": track.pid,
        "tid": track.tid,
        "process": track.process_name,
        "label": track.process_label,
        "thread": track.thread_name,
    }
