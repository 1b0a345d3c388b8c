"""Traces written down by hand: small enough to know every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import RawSlices, build_trace
from stepscope.trace.model import Args, IntColumn, Trace, TraceInfo, Track
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


def trace_of_calls(calls: Sequence[Call], **info: Any) -> Trace:
    ids: dict[str, int] = {"": 0}

    def column(values: Sequence[Any], dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        return np.array(values, dtype)

    def texts(values: Sequence[str]) -> np.ndarray[Any, Any]:
        return column([ids.setdefault(value, len(ids)) for value in values], np.uint32)

    known = [row for row, call in enumerate(calls) if call.external_id is not None]
    external = IntColumn(
        column(known, np.uint32), column([calls[row].external_id for row in known], np.int64)
    )
    raw = RawSlices(
        category=texts([call.category for call in calls]),
        name=texts([call.name for call in calls]),
        start_ns=column([call.start * 1000 for call in calls], np.int64),
        duration_ns=column([(call.end - call.start) * 1000 for call in calls], np.int64),
        track=column([call.track for call in calls], np.uint32),
        overload=texts([call.overload for call in calls]),
        flags=column([call.flags for call in calls], np.uint8),
        correlation=column([call.correlation for call in calls], np.int64),
        args=Args({"External id": external} if known else {}, texts([call.rest for call in calls])),
    )
    tracks = [Track("10", str(20 + i), logical_id=i + 1) for i in range(4)]
    return build_trace(raw, tracks, Strings.of(ids), TraceInfo("test", **info))
