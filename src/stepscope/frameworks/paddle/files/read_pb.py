"""Reads Paddle's profiler result files (``.pb``, a protobuf message NodeTreesProto)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.base.gzip import file_bytes
from stepscope.frameworks.paddle.result_columns import PRODUCER, PaddleFile, paddle_file
from stepscope.trace.build import build
from stepscope.trace.model import NO_PARENT, NO_SLICE, Int32, Int64, Slices, Trace, TraceInfo

Progress = Callable[[int, int], None]

_HEAD = re.compile(rb"\x0a[\x01-\x1f]\d+(\.\d+)*\x10")  # version, and the key of span_index
_NOT_A_TRACE = "is the file a result that paddle.profiler exported?"


def is_paddle_pb(head: bytes) -> bool:
    """Tell whether a file that starts with these bytes is Paddle's protobuf."""
    return _HEAD.match(head) is not None


def read_paddle_pb(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """Read a result that paddle.profiler exported as protobuf, gzipped or not.

    Times count from the first event, whose Unix time is ``info.wall_offset_ns``. A damaged file is
    read as far as possible, with a ``TraceReadWarning``.
    """
    place = Path(path)
    data, damage = file_bytes(place, progress)
    file = paddle_file(data, from_first=True)
    _check(place, data, file, damage)
    damage = damage or file.damage
    if damage:
        count = len(file.captured.slices.start_ns)
        text = f"{place}: {damage}; {count} events could be read"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return _nested_as_in_file(build(file.captured, _info(file, damage)), file)


def _check(path: Path, data: bytes, file: PaddleFile, damage: str) -> None:
    if not data:
        raise TraceReadError(path, f"cannot be read: {damage}" if damage else "is empty")
    if len(file.captured.slices.start_ns) or len(file.captured.memory):
        return
    cause = damage or file.damage
    if not is_paddle_pb(data):
        raise TraceReadError(path, "is not a Paddle protobuf", _NOT_A_TRACE)
    if cause:
        raise TraceReadError(path, f"has no readable event: {cause}", _NOT_A_TRACE)


def _info(file: PaddleFile, damage: str) -> TraceInfo:
    slices = file.captured.slices
    ends = slices.start_ns + slices.duration_ns
    pids = {track.pid for track in file.captured.tracks if track.tid in file.extra_info}
    anomalies = dict(file.anomalies)
    if damage:
        anomalies["damaged file"] = 1
    return TraceInfo(
        producer=PRODUCER,
        start_ns=int(slices.start_ns.min(initial=0)),
        end_ns=int(ends.max(initial=0)),
        wall_offset_ns=file.first_ns,
        pid=int(pids.pop()) if len(pids) == 1 else 0,
        anomalies=anomalies,
        user=file.user(),
    )


def _nested_as_in_file(trace: Trace, file: PaddleFile) -> Trace:
    """Return the trace with the parents that the file names.

    Where the file names none, nesting follows from times. So it does for impossible parents: those
    that begin after their child, or are on another thread.
    """
    if not _is_ambiguous(trace):
        return trace
    raw = file.captured.slices
    order = _native.slice_order(raw.start_ns, raw.duration_ns)
    parent = file.parent if order is None else file.parent[order]
    row_of = np.arange(len(parent))
    if order is not None:
        row_of[order] = np.arange(len(parent))
    slices = _nested(trace.slices, _renumbered(parent, row_of))
    memory = trace.memory
    if len(memory):
        by_time = np.argsort(file.captured.memory.time_ns, kind="stable")
        owner = _renumbered(file.memory_parent[by_time], row_of)
        owner = np.where(owner >= NO_PARENT, owner, memory.slice)
        owner = np.where(owner == NO_PARENT, NO_SLICE, owner)
        memory = replace(memory, slice=owner.astype(np.int32))
    return replace(trace, slices=slices, memory=memory)


def _is_ambiguous(trace: Trace) -> bool:
    """Tell whether times alone allow another tree than the file's."""
    slices = trace.slices
    if "overlapping slices" in trace.info.anomalies or (slices.duration_ns == 0).any():
        return True
    alike = (np.diff(slices.start_ns) == 0) & (np.diff(slices.duration_ns) == 0)
    return bool(alike.any())


def _renumbered(parent: Int64, row_of: Int64) -> Int64:
    return np.where(parent >= 0, row_of[parent], parent)


def _nested(slices: Slices, named: Int64) -> Slices:
    rows = np.arange(len(named))
    above = np.maximum(named, 0)
    can_be = (named == NO_PARENT) | ((named < rows) & (slices.track[above] == slices.track))
    parent = np.where((named >= NO_PARENT) & can_be, named, slices.parent).astype(np.int32)
    if np.array_equal(parent, slices.parent):
        return slices
    inside = np.flatnonzero(parent != NO_PARENT)
    below_ns = np.zeros(len(parent), np.int64)
    np.add.at(below_ns, parent[inside], slices.duration_ns[inside])
    self_ns = np.maximum(slices.duration_ns - below_ns, 0)
    return replace(slices, parent=parent, depth=_depths(parent), self_ns=self_ns)


def _depths(parent: Int32) -> Int32:
    depth = np.zeros(len(parent), np.int32)
    inside = np.flatnonzero(parent != NO_PARENT)
    while len(inside):
        deeper = depth[parent[inside]] + 1
        inside, deeper = inside[changed := deeper != depth[inside]], deeper[changed]
        depth[inside] = deeper
    return depth
