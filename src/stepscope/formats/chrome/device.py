"""Device data in torch.profiler's JSON: links from launches to work, and ranges on streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.base.sums import around
from stepscope.analysis.calls.launches import launched_work
from stepscope.formats.chrome.flows import flow_marks
from stepscope.trace.keys import EXTERNAL_ID
from stepscope.trace.kinds import CALL_KINDS
from stepscope.trace.model import NO_PARENT, Args, IntColumn, SliceKind

if TYPE_CHECKING:
    from stepscope.trace.model import Int64, Marks, Trace, UInt32

_RANGE_KINDS = (SliceKind.RANGE, SliceKind.STEP)


@dataclass(frozen=True, slots=True)
class DeviceRanges:
    """The user's ranges on streams: from the first work launched in one to the end of the last.

    The columns are in the order that the writer takes.
    """

    category: UInt32
    name: UInt32
    start_ns: Int64
    duration_ns: Int64
    track: UInt32
    args: Args

    def __len__(self) -> int:
        return len(self.start_ns)

    def columns(self) -> tuple[UInt32, UInt32, Int64, Int64, UInt32]:
        return self.category, self.name, self.start_ns, self.duration_ns, self.track


def external_ids(trace: Trace) -> IntColumn:
    """Return the number of each host event; device work and calls have their operator's."""
    slices = trace.slices
    ids = np.arange(1, len(slices) + 1, dtype=np.int64)
    calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
    ids[calls] = around(slices.parent, calls, np.isin(slices.kind, CALL_KINDS)) + 1
    on_device = slices.on_device
    ids[on_device] = 0
    work, call = launched_work(trace)
    ids[work] = ids[call]
    rows = np.flatnonzero(ids)
    return IntColumn(rows.astype(np.uint32), ids[rows])


def launch_flows(trace: Trace, flow_name: int, enclosing: int) -> Marks:
    """Return a flow from each call to the device work that it launched."""
    work, call = launched_work(trace)
    return flow_marks(trace, (call, work), flow_name, enclosing, trace.slices.correlation[work])


def device_ranges(trace: Trace, category: int) -> DeviceRanges | None:
    """Return the user's ranges on the streams; None if no work was launched in any."""
    slices = trace.slices
    work, call = launched_work(trace)
    seen, keys = [], []  # device work, and (range, stream) around its launch
    every = np.arange(len(slices))
    outer = around(slices.parent, every, np.isin(slices.kind, _RANGE_KINDS))
    of_range = outer[call]
    while len(work := work[inside := of_range != NO_PARENT]):
        of_range = of_range[inside]
        seen.append(work)
        keys.append(of_range << 32 | slices.track[work])
        of_range = outer[of_range]
    if not seen:
        return None
    rows_seen = np.concatenate(seen)
    distinct, group = np.unique(np.concatenate(keys), return_inverse=True)
    first = np.full(len(distinct), np.iinfo(np.int64).max)
    last = np.full(len(distinct), np.iinfo(np.int64).min)
    np.minimum.at(first, group, slices.start_ns[rows_seen])
    np.maximum.at(last, group, slices.ends_of(rows_seen))
    rows = distinct >> 32
    return DeviceRanges(
        category=np.full(len(distinct), category, np.uint32),
        name=slices.name[rows],
        start_ns=first,
        duration_ns=last - first,
        track=(distinct & 0xFFFFFFFF).astype(np.uint32),
        args=Args({EXTERNAL_ID: IntColumn(np.arange(len(rows), dtype=np.uint32), rows + 1)}),
    )
