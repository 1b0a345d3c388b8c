"""How much of one rank's communication compute hides, by group and by module: exact sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.job.collectives import Collectives
from stepscope.job.work import busy_host
from stepscope.trace.model import Bool, Int64, Trace


class Overlap(NamedTuple):
    """Communication of a rank in ns, as unions of intervals."""

    device: str  # "host" for communication without a kernel
    group: str  # "" for an unnamed group, ALL for the sum
    module: str  # ALL for all modules of the group
    calls: int
    communication_ns: int
    overlap_ns: int  # hidden by compute

    @property
    def exposed_ns(self) -> int:
        return self.communication_ns - self.overlap_ns


ALL = "*"
HOST = "host"


class _Place(NamedTuple):
    """A device or the host: its collectives, and when it computes."""

    device: str
    start_ns: Int64
    end_ns: Int64
    which: Int64
    compute: Intervals


def overlaps(trace: Trace, collectives: Collectives) -> tuple[tuple[Overlap, ...], Intervals]:
    """Return the sums by device, group and module, and when communication is exposed."""
    rows: list[Overlap] = []
    exposed: list[Intervals] = []
    for place in _places(trace, collectives):
        whole = np.ones(len(place.which), np.bool_)
        rows.append(_overlap(place, ALL, ALL, whole))
        kinds = [collectives.kinds[i] for i in collectives.kind[place.which].tolist()]
        groups = np.array([kind.group for kind in kinds], object)
        modules = np.array([kind.module for kind in kinds], object)
        for group in dict.fromkeys(groups):
            mine = groups == group
            rows.append(_overlap(place, group, ALL, mine))
            for module in dict.fromkeys(modules[mine]):
                if module:
                    rows.append(_overlap(place, group, module, mine & (modules == module)))
        exposed.append(_less(union(place.start_ns, place.end_ns), place.compute))
    if not exposed:
        return (), union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    every = union(
        np.concatenate([intervals.start_ns for intervals in exposed]),
        np.concatenate([intervals.end_ns for intervals in exposed]),
    )
    return tuple(rows), every


def _places(trace: Trace, collectives: Collectives) -> Iterator[_Place]:
    """Yield each device that communicates, or the host."""
    if not len(collectives):
        return
    if not collectives.on_device:
        communicates = np.zeros(len(trace.slices), np.bool_)
        communicates[collectives.row] = True
        communicates[collectives.host_row] = True
        every = np.arange(len(collectives))
        busy = busy_host(trace, communicates)
        yield _Place(HOST, collectives.start_ns, collectives.end_ns, every, busy)
        return
    work = device_work(trace)
    device_of = np.full(len(trace.slices), -1, np.int64)
    device_of[work.rows] = work.device
    for i, device in enumerate(work.devices):
        which = np.flatnonzero(device_of[collectives.row] == i)
        if len(which):
            compute = work.busy((work.device == i) & (work.kind == WorkKind.COMPUTE))
            yield _Place(
                device, collectives.start_ns[which], collectives.end_ns[which], which, compute
            )


def _overlap(place: _Place, group: str, module: str, which: Bool) -> Overlap:
    talk = union(place.start_ns[which], place.end_ns[which])
    shared = int(place.compute.covered(talk.start_ns, talk.end_ns).sum())
    return Overlap(place.device, group, module, int(which.sum()), talk.total_ns, shared)


def _less(talk: Intervals, compute: Intervals) -> Intervals:
    """Return the time of ``talk`` that ``compute`` does not cover."""
    if not len(talk):
        return talk
    free = compute.gaps(int(talk.start_ns[0]), int(talk.end_ns[-1]))
    return talk.shared_with(free)
