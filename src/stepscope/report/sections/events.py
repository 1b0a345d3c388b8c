"""The events, which the timeline draws and all other pages refer to by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.tree import distinct_ids
from stepscope.analysis.calls.launches import launched_work
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.report.base.payload import Payload
from stepscope.report.sections.threads import add_threads
from stepscope.trace.kinds import WORK_KINDS
from stepscope.trace.model import SliceKind, Slices, Trace
from stepscope.trace.table import Column, Role


def add_events(trace: Trace, payload: Payload) -> None:
    """Add slices (rows in order of start), tracks, strings, stacks and launches.

    Times are ns since ``origin_ns``, the trace's first moment.
    """
    slices = trace.slices
    origin_ns = origin_of(trace)
    payload.add_value("origin_ns", str(origin_ns))
    payload.add_value("kinds", {kind.name: int(kind) for kind in SliceKind})
    for name, spec in slices.columns().items():
        if spec.page:
            values = _in_page(slices, name, spec, origin_ns)
            payload.add_column(f"slices.{spec.page}", values, ascending=spec.role is Role.TIME)
    payload.add_column("slices.rest", slices.args.rest)
    work, call = launched_work(trace)
    payload.add_column("launches.work", work, ascending=True)
    payload.add_column("launches.call", call)
    payload.add_column("stacks.up", np.arange(len(trace.stacks)) - trace.stacks.parent)
    payload.add_column("stacks.frame", trace.stacks.frame)
    add_strings(trace, payload)
    add_threads(trace, payload)
    payload.add_value("tracks", [_track(trace, row) for row in range(len(trace.tracks))])


def add_strings(trace: Trace, payload: Payload) -> None:
    """Add the texts that other columns refer to by id."""
    blob, offsets, full_names = _with_kernel_names(trace)
    payload.add_column("strings.bytes", np.frombuffer(blob, np.uint8))
    payload.add_column("strings.offsets", offsets, ascending=True)
    payload.add_value("strings.full", full_names)


def _with_kernel_names(trace: Trace) -> tuple[bytes, NDArray[np.int64], dict[int, str]]:
    """Return the texts with kernel names shortened for display, and the full names by id."""
    strings, slices = trace.strings, trace.slices
    blob, offsets = strings.blob, np.asarray(strings.offsets, np.int64)
    full_names = {}
    parts, at, length = [], 0, np.diff(offsets)
    for name in distinct_ids(slices.name[np.isin(slices.kind, WORK_KINDS)]).tolist():
        shown = kernel_name(strings[name])
        if shown == strings[name]:
            continue
        full_names[name] = strings[name]
        text = shown.encode("utf-8", "replace")
        parts += [blob[at : offsets[name]], text]
        at, length[name] = offsets[name + 1], len(text)
    parts.append(blob[at:])
    return (
        b"".join(parts),
        np.concatenate([offsets[:1], offsets[0] + np.cumsum(length)]),
        full_names,
    )


def _in_page(slices: Slices, name: str, spec: Column, origin_ns: int) -> NDArray[Any]:
    """Return a column as decode.js expects it: small and not negative, 0 where it has no value."""
    values: NDArray[Any] = getattr(slices, name)
    if spec.page_less:
        values = getattr(slices, spec.page_less) - values
    elif spec.role is Role.TIME:
        values = values - origin_ns
    elif spec.role is Role.SLICE:
        values = np.where(values < 0, 0, np.arange(len(values), dtype=np.int64) - values)
    elif spec.absent == -1:
        values = values.astype(np.int64) + 1
    return values


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
