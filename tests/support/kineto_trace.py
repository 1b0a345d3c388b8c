"""A Trace of what torch.profiler itself recorded, to hold our numbers against torch's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import Args, SliceFlags, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

BACKWARD_SCOPE = 1


class Interner:
    def __init__(self) -> None:
        self.ids: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))

    def strings(self) -> Strings:
        return Strings.of(self.ids)


def flags_of(event: Any) -> int:
    flags = 0
    if event.start_thread_id() != event.end_thread_id():
        flags |= SliceFlags.ASYNC
    if event.scope() == BACKWARD_SCOPE:
        flags |= SliceFlags.BACKWARD
    return flags


def shapes_of(event: Any) -> str:
    dims = event.shapes()
    return f'"Input Dims": {json.dumps(dims)}' if dims else ""


def trace_of(profiler: Any) -> Trace:
    """Turn a stopped torch.profiler.profile into a Trace, hidden events and all."""
    results = profiler.profiler.kineto_results
    events = list(results.events())
    intern = Interner()
    threads = sorted({event.start_thread_id() for event in events})

    def column(value: Callable[[Any], int], dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        return np.array([value(event) for event in events], dtype)

    raw = Slices.of(
        category=column(lambda event: intern(event.activity_type()), np.uint32),
        name=column(lambda event: intern(event.name()), np.uint32),
        start_ns=column(lambda event: event.start_ns(), np.int64),
        duration_ns=column(lambda event: event.duration_ns(), np.int64),
        track=column(lambda event: threads.index(event.start_thread_id()), np.uint32),
        flags=column(flags_of, np.uint8),
        sequence=column(lambda event: event.sequence_nr(), np.int64),
        forward_thread=column(lambda event: event.fwd_thread_id(), np.int64),
        args=Args(rest=column(lambda event: intern(shapes_of(event)), np.uint32)),
    )
    tracks = tuple(Track("1", str(thread), logical_id=thread) for thread in threads)
    start_ns = results.trace_start_ns()
    captured = Captured(raw, tracks, intern.strings())
    return build(captured, TraceInfo("torch", start_ns=start_ns))
