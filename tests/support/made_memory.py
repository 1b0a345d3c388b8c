"""Memory written down by hand, on top of the traces of ``made_trace``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from made_trace import Call, trace_of_calls
from stepscope.trace.build import tied_to_slices
from stepscope.trace.model import NO_SLICE, Memory, MemoryOwner, Owners
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.trace.model import Trace


@dataclass(frozen=True)
class Event:
    """An allocation, or with negative bytes a release; the time in µs."""

    at: float
    bytes: int
    address: int = 0x1000
    device: str = "cpu"
    track: int = 0
    allocated: int = 0


@dataclass(frozen=True)
class Said:
    """A statement about a block; the time in µs."""

    at: float
    address: int
    owner: MemoryOwner
    bytes: int = 0
    device: str = "cpu"


def trace_with_memory(
    calls: Sequence[Call], events: Sequence[Event], statements: Sequence[Said] = (), **info: Any
) -> Trace:
    trace = trace_of_calls(calls, **info)
    devices = list(dict.fromkeys(item.device for item in (*events, *statements)))
    ids = {device: len(trace.strings) + i for i, device in enumerate(devices)}

    def ns(values: Sequence[Event] | Sequence[Said]) -> Any:
        return np.array([round(item.at * 1000) for item in values], np.int64)

    memory = Memory(
        time_ns=ns(events),
        address=np.array([e.address for e in events], np.int64),
        size=np.array([e.bytes for e in events], np.int64),
        device=np.array([ids[e.device] for e in events], np.uint32),
        track=np.array([e.track for e in events], np.uint32),
        slice=np.full(len(events), NO_SLICE, np.int32),
        allocated=np.array([e.allocated for e in events], np.int64),
        reserved=np.zeros(len(events), np.int64),
    )
    owners = Owners(
        time_ns=ns(statements),
        address=np.array([s.address for s in statements], np.int64),
        size=np.array([s.bytes for s in statements], np.int64),
        device=np.array([ids[s.device] for s in statements], np.uint32),
        owner=np.array([s.owner for s in statements], np.uint8),
    )
    return replace(
        trace,
        strings=Strings.of([*trace.strings, *devices]),
        memory=tied_to_slices(memory, trace.slices),
        owners=owners,
    )
