"""Flows between slices: from launches to the work on devices, from forward to backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.device.launches import launched_work
from stepscope.formats.chrome.flows import forward_backward_links
from stepscope.trace.build import running_at
from stepscope.trace.model import NO_SLICE, Int64, Marks, Trace, UInt32

FLOW_PHASES = tuple(b"stf")
_LAST = ord("f")


@dataclass(frozen=True, slots=True)
class Flows:
    """Which flows pass through which slices, and which end there; rows ascend."""

    row: UInt32
    flow: Int64
    last_row: UInt32
    last_flow: Int64


def flows(trace: Trace) -> Flows:
    """Return the flows of a file; without any, those that the trace implies."""
    told = np.isin(trace.marks.phase, FLOW_PHASES)
    if told.any():
        return _told(trace, np.flatnonzero(told))
    work, call = launched_work(trace)
    forward, backward = forward_backward_links(trace)
    ends = np.concatenate((work, backward))
    numbers = np.arange(1, len(ends) + 1, dtype=np.int64)
    return _ordered(np.concatenate((call, forward)), numbers, ends, numbers)


def _told(trace: Trace, rows: Int64) -> Flows:
    marks = trace.marks.take(rows)
    at = running_at(marks.time_ns, marks.track, trace.slices)
    known = at != NO_SLICE
    numbers = _numbers(marks)
    first, last = known & (marks.phase != _LAST), known & (marks.phase == _LAST)
    return _ordered(at[first], numbers[first], at[last], numbers[last])


def _numbers(marks: Marks) -> Int64:
    """Return a number for each flow: flows with different names may share an id."""
    ids = marks.fields.dense("id", len(marks), 0)
    rest = marks.fields.rest if len(marks.fields.rest) else np.zeros(len(marks), np.uint32)
    named = "id" in marks.fields.integers
    key = ids if named else rest.astype(np.int64)
    told = np.stack((key, marks.name.astype(np.int64), marks.category.astype(np.int64)), axis=1)
    _, numbers = np.unique(told, axis=0, return_inverse=True)
    return numbers.ravel().astype(np.int64) + 1


def _ordered(
    row: NDArray[np.integer], flow: Int64, last_row: NDArray[np.integer], last_flow: Int64
) -> Flows:
    order, last_order = np.argsort(row, kind="stable"), np.argsort(last_row, kind="stable")
    return Flows(
        row[order].astype(np.uint32),
        np.ascontiguousarray(flow[order]),
        last_row[last_order].astype(np.uint32),
        np.ascontiguousarray(last_flow[last_order]),
    )
