"""From the raw columns of a source or a reader to a Trace: order, kinds, nesting, steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stepscope import _native
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_PARENT,
    NO_SEQUENCE,
    NO_SLICE,
    NO_STACK,
    NO_STEP,
    NO_THREAD,
    Args,
    Int32,
    Int64,
    IntColumn,
    Marks,
    Memory,
    Owners,
    SliceFlags,
    SliceKind,
    Slices,
    Stacks,
    Trace,
    TraceInfo,
    Track,
    UInt8,
    UInt32,
)
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STEP_NAME = re.compile(r"Profiler?Step#(\d+)$")

_KIND_OF_CATEGORY = {
    "cpu_op": SliceKind.OPERATOR,
    "operator": SliceKind.OPERATOR,
    "user_annotation": SliceKind.RANGE,
    "python_function": SliceKind.PYTHON,
    "module": SliceKind.MODULE,
    "compile": SliceKind.RANGE,
    "cuda_runtime": SliceKind.RUNTIME,
    "cuda_driver": SliceKind.RUNTIME,
    "mtia_runtime": SliceKind.RUNTIME,
    "xpu_runtime": SliceKind.RUNTIME,
    "privateuse1_runtime": SliceKind.RUNTIME,
    "privateuse1_driver": SliceKind.RUNTIME,
    "runtime": SliceKind.RUNTIME,
    "kernel": SliceKind.KERNEL,
    "mtia_ccp_events": SliceKind.KERNEL,
    "gpu_memcpy": SliceKind.MEMCPY,
    "memcpy": SliceKind.MEMCPY,
    "gpu_memset": SliceKind.MEMSET,
    "memset": SliceKind.MEMSET,
    "cuda_sync": SliceKind.SYNC,
    "gpu_user_annotation": SliceKind.DEVICE_RANGE,
    "mtia_user_annotation": SliceKind.DEVICE_RANGE,
    # Paddle's: see TracerEventType. Its kernels and copies are called as above.
    "operatorinner": SliceKind.OPERATOR,
    "dygraphkernellaunch": SliceKind.OPERATOR,
    "statickernellaunch": SliceKind.OPERATOR,
    "pythonop": SliceKind.OPERATOR,
    "communication": SliceKind.OPERATOR,
    "userdefined": SliceKind.OPERATOR,  # of C++: the binding around an operator
    "pythonuserdefined": SliceKind.RANGE,
    "profilestep": SliceKind.RANGE,
    "forward": SliceKind.RANGE,
    "backward": SliceKind.RANGE,
    "optimization": SliceKind.RANGE,
    "dataloader": SliceKind.RANGE,
    "cudaruntime": SliceKind.RUNTIME,
}

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class RawSlices:
    """Slices as they came: any order, nothing derived. ``None`` stands for a column of defaults."""

    category: UInt32
    name: UInt32
    start_ns: Int64
    duration_ns: Int64
    track: UInt32
    overload: UInt32 | None = None
    flags: UInt8 | None = None
    context: UInt32 | None = None
    sequence: Int64 | None = None
    forward_thread: Int64 | None = None
    correlation: Int64 | None = None
    stack: UInt32 | None = None
    args: Args = field(default_factory=Args)
    fields: Args = field(default_factory=Args)


@dataclass(frozen=True, slots=True)
class Captured:
    """What the recorder or a source saw, before it is built into a Trace.

    The rows of ``memory`` may stand in any order, and know no slice yet.
    """

    slices: RawSlices
    tracks: tuple[Track, ...]
    strings: Strings
    stacks: Stacks = field(default_factory=Stacks.empty)
    memory: Memory = field(default_factory=Memory.empty)
    owners: Owners = field(default_factory=Owners.empty)


def build(captured: Captured, info: TraceInfo) -> Trace:
    """Build the Trace of a recording."""
    trace = build_trace(captured.slices, captured.tracks, captured.strings, info)
    return replace(
        trace,
        stacks=captured.stacks,
        memory=tied_to_slices(captured.memory, trace.slices),
        owners=captured.owners,
    )


def build_trace(
    raw: RawSlices,
    tracks: Sequence[Track],
    strings: Strings,
    info: TraceInfo,
    marks: Marks | None = None,
) -> Trace:
    """Order, classify and nest the slices, and number their steps."""
    raw = _ordered(raw)
    rows = len(raw.start_ns)
    flags = _or_default(raw.flags, rows, np.uint8, 0)
    parent, depth, self_ns, overlaps = _native.nest(
        raw.start_ns, raw.duration_ns, raw.track, flags, raw.context
    )
    kind = _kinds(raw, strings)
    raw = _with_engine_ties(raw, flags, parent)
    if overlaps:
        info = replace(info, anomalies={**info.anomalies, "overlapping slices": overlaps})
    slices = Slices(
        kind=kind,
        flags=flags,
        category=raw.category,
        name=raw.name,
        overload=_or_default(raw.overload, rows, np.uint32, 0),
        start_ns=raw.start_ns,
        duration_ns=raw.duration_ns,
        self_ns=self_ns,
        track=raw.track,
        parent=parent,
        depth=depth,
        step=_steps(raw, kind, strings),
        sequence=_or_default(raw.sequence, rows, np.int64, NO_SEQUENCE),
        forward_thread=_or_default(raw.forward_thread, rows, np.int64, NO_THREAD),
        correlation=_or_default(raw.correlation, rows, np.int64, NO_CORRELATION),
        stack=_or_default(raw.stack, rows, np.uint32, NO_STACK),
        args=raw.args,
        fields=raw.fields,
    )
    return Trace(slices, tuple(tracks), strings, info, marks or Marks.empty())


def empty_trace() -> Trace:
    """Return a trace in which nothing happened."""
    ids, times = np.zeros(0, np.uint32), np.zeros(0, np.int64)
    return build_trace(RawSlices(ids, ids, times, times, ids), (), Strings.of([""]), TraceInfo(""))


def step_number(name: str) -> int | None:
    """Return n for ``ProfilerStep#n`` and ``ProfileStep#n``, else None."""
    match = _STEP_NAME.match(name)
    return int(match[1]) if match else None


def _or_default(
    column: NDArray[_Scalar] | None, rows: int, dtype: type[_Scalar], default: int
) -> NDArray[_Scalar]:
    return np.full(rows, default, dtype) if column is None else column


def _ordered(raw: RawSlices) -> RawSlices:
    order = _native.slice_order(raw.start_ns, raw.duration_ns)
    if order is None:
        return raw

    def take(column: NDArray[_Scalar] | None) -> NDArray[_Scalar] | None:
        return None if column is None else column[order]

    new_row = np.empty(len(order), np.uint32)
    new_row[order] = np.arange(len(order), dtype=np.uint32)
    return RawSlices(
        category=raw.category[order],
        name=raw.name[order],
        start_ns=raw.start_ns[order],
        duration_ns=raw.duration_ns[order],
        track=raw.track[order],
        overload=take(raw.overload),
        flags=take(raw.flags),
        context=take(raw.context),
        sequence=take(raw.sequence),
        forward_thread=take(raw.forward_thread),
        correlation=take(raw.correlation),
        stack=take(raw.stack),
        args=_reordered_args(raw.args, order, new_row),
        fields=_reordered_args(raw.fields, order, new_row),
    )


def _reordered_args(args: Args, order: UInt32, new_row: UInt32) -> Args:
    def moved(column: IntColumn) -> IntColumn:
        rows = new_row[column.rows]
        ascending = np.argsort(rows, kind="stable")
        return IntColumn(rows[ascending], column.values[ascending])

    integers = {key: moved(column) for key, column in args.integers.items()}
    return Args(integers, args.rest[order] if len(args.rest) else args.rest)


def _with_engine_ties(raw: RawSlices, flags: UInt8, parent: Int32) -> RawSlices:
    """Let the engine's slice around a backward function be tied to the forward operator, too."""
    if raw.sequence is None or raw.forward_thread is None:
        return raw
    inner = np.flatnonzero((flags & SliceFlags.BACKWARD != 0) & (parent != NO_PARENT))
    inner = inner[(raw.sequence[inner] >= 0) & (raw.sequence[parent[inner]] == NO_SEQUENCE)]
    if not len(inner):
        return raw
    sequence, forward_thread = raw.sequence.copy(), raw.forward_thread.copy()
    sequence[parent[inner]] = sequence[inner]
    forward_thread[parent[inner]] = forward_thread[inner]
    return replace(raw, sequence=sequence, forward_thread=forward_thread)


def _kinds(raw: RawSlices, strings: Strings) -> UInt8:
    table = np.zeros(len(strings), np.uint8)
    for category in np.unique(raw.category):
        word = strings[int(category)].lower()
        table[category] = _KIND_OF_CATEGORY.get(word, SliceKind.OTHER)
    kind: UInt8 = table[raw.category]
    ranges = np.flatnonzero((kind == SliceKind.RANGE) | (kind == SliceKind.OPERATOR))
    is_step = np.zeros(len(strings), bool)
    for name in np.unique(raw.name[ranges]):
        is_step[name] = step_number(strings[int(name)]) is not None
    kind[ranges[is_step[raw.name[ranges]]]] = SliceKind.STEP
    return kind


def _steps(raw: RawSlices, kind: UInt8, strings: Strings) -> Int32:
    """Number every slice by the step in which it started, on whatever thread."""
    step = np.full(len(kind), NO_STEP, np.int32)
    rows = np.flatnonzero(kind == SliceKind.STEP)
    if not len(rows):
        return step
    starts, ends = raw.start_ns[rows], raw.start_ns[rows] + raw.duration_ns[rows]
    numbers = np.array([step_number(strings[int(i)]) for i in raw.name[rows]], np.int32)
    at = np.searchsorted(starts, raw.start_ns, side="right") - 1
    inside = (at >= 0) & (raw.start_ns < ends[at])
    step[inside] = numbers[at[inside]]
    return step


def tied_to_slices(memory: Memory, slices: Slices) -> Memory:
    """Put memory events in the order of time, each with the innermost slice around it."""
    if not len(memory):
        return memory
    order = np.argsort(memory.time_ns, kind="stable")
    memory = Memory(**{f.name: getattr(memory, f.name)[order] for f in fields(Memory)})
    found = np.full(len(memory), NO_SLICE, np.int32)
    ended_here = slices.flags & SliceFlags.ASYNC == 0
    for track in np.unique(memory.track):
        rows = np.flatnonzero((slices.track == track) & ended_here)
        events = np.flatnonzero(memory.track == track)
        at = np.searchsorted(slices.start_ns[rows], memory.time_ns[events], side="right") - 1
        found[events[at >= 0]] = rows[at[at >= 0]]
    return replace(memory, slice=_climbed_to_running(found, memory.time_ns, slices))


def _climbed_to_running(found: Int32, time_ns: Int64, slices: Slices) -> Int32:
    """Go from the slice that started last to the one around it that had not ended."""
    end_ns = slices.end_ns
    over = np.flatnonzero(found != NO_SLICE)
    while len(over := over[end_ns[found[over]] < time_ns[over]]):
        found[over] = slices.parent[found[over]]
        over = over[found[over] != NO_SLICE]
    return found
