"""Traces written down by hand: small enough to know every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import (
    Args,
    IntColumn,
    Memory,
    Samples,
    Stacks,
    ThreadState,
    Trace,
    TraceInfo,
    Track,
    WaitReason,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Call:
    """One slice; times in µs."""

    name: str
    start: int
    end: int
    category: str = "cpu_op"
    track: int = 0
    flags: int = 0
    overload: str = ""
    rest: str = ""
    correlation: int = -1
    external_id: int | None = None
    sequence: int = -1
    forward_thread: int = -1
    stack: tuple[str, ...] = ()  # the innermost frame first


@dataclass(frozen=True)
class Bytes:
    """Memory that was allocated or, when negative, freed; the time in µs."""

    time: int
    size: int
    device: str = "cpu"
    track: int = 0


@dataclass(frozen=True)
class Sample:
    """What a thread was doing; times in µs."""

    start: int
    end: int
    stack: tuple[str, ...] = ()  # the innermost frame first
    state: ThreadState = ThreadState.PYTHON
    wait: WaitReason = WaitReason.UNKNOWN
    track: int = 0


def trace_of_calls(
    calls: Sequence[Call],
    memory: Sequence[Bytes] = (),
    samples: Sequence[Sample] = (),
    pids: Sequence[str] = (),
    logical_ids: bool = True,
    **info: Any,
) -> Trace:
    """Return a trace of four threads, of process 10 unless ``pids`` says otherwise.

    Without ``logical_ids`` the framework's numbers of the threads are not known.
    """
    ids: dict[str, int] = {"": 0}

    def column(values: Sequence[Any], dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        return np.array(values, dtype)

    def texts(values: Sequence[str]) -> np.ndarray[Any, Any]:
        return column([ids.setdefault(value, len(ids)) for value in values], np.uint32)

    results = [row for row, call in enumerate(calls) if call.external_id is not None]
    external = IntColumn(
        column(results, np.uint32), column([calls[row].external_id for row in results], np.int64)
    )
    stacks: dict[tuple[int, int], int] = {(0, 0): 0}  # a row by its caller's row and its frame

    def stack(frames: tuple[str, ...]) -> int:
        row = 0
        for frame in reversed(frames):
            row = stacks.setdefault((row, ids.setdefault(frame, len(ids))), len(stacks))
        return row

    raw = Slices.of(
        category=texts([call.category for call in calls]),
        name=texts([call.name for call in calls]),
        start_ns=column([call.start * 1000 for call in calls], np.int64),
        duration_ns=column([(call.end - call.start) * 1000 for call in calls], np.int64),
        track=column([call.track for call in calls], np.uint32),
        overload=texts([call.overload for call in calls]),
        flags=column([call.flags for call in calls], np.uint8),
        correlation=column([call.correlation for call in calls], np.int64),
        sequence=column([call.sequence for call in calls], np.int64),
        forward_thread=column([call.forward_thread for call in calls], np.int64),
        stack=column([stack(call.stack) for call in calls], np.uint32),
        args=Args(
            {"External id": external} if results else {}, texts([call.rest for call in calls])
        ),
    )
    allocations = Memory(
        time_ns=column([event.time * 1000 for event in memory], np.int64),
        address=column([0] * len(memory), np.int64),
        size=column([event.size for event in memory], np.int64),
        device=texts([event.device for event in memory]),
        track=column([event.track for event in memory], np.uint32),
        slice=column([-1] * len(memory), np.int32),
        allocated=column([0] * len(memory), np.int64),
        reserved=column([0] * len(memory), np.int64),
    )
    looked = Samples.of(
        time_ns=column([item.start * 1000 for item in samples], np.int64),
        duration_ns=column([(item.end - item.start) * 1000 for item in samples], np.int64),
        track=column([item.track for item in samples], np.uint32),
        stack=column([stack(item.stack) for item in samples], np.uint32),
        state=column([item.state for item in samples], np.uint8),
        wait=column([item.wait for item in samples], np.uint8),
    )
    pids = list(pids) or ["10"] * 4
    numbers = [pids[:i].count(pid) + 1 if logical_ids else -1 for i, pid in enumerate(pids)]
    tracks = tuple(Track(pid, str(20 + i), logical_id=numbers[i]) for i, pid in enumerate(pids))
    parent, frame = np.array(list(stacks), np.uint32).T
    expected = Stacks(parent.copy(), frame.copy())
    captured = Captured(raw, tracks, Strings.of(ids), expected, allocations, samples=looked)
    return build(captured, TraceInfo("test", **info))
