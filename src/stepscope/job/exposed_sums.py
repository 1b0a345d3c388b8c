"""How much of one rank's communication runs beside compute, by group and by module: exact sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepscope.analysis.device.work import WorkKind, device_work
from stepscope.analysis.intervals import Intervals, union
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


def overlaps(trace: Trace, found: Collectives) -> tuple[tuple[Overlap, ...], Intervals]:
    """Return the sums by device, group and module, and when communication is exposed."""
    rows: list[Overlap] = []
    exposed: list[Intervals] = []
    for place in _places(trace, found):
        whole = np.ones(len(place.which), np.bool_)
        rows.append(_overlap(place, ALL, ALL, whole))
        kinds = [found.kinds[i] for i in found.kind[place.which].tolist()]
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
        np.concatenate([each.start_ns for each in exposed]),
        np.concatenate([each.end_ns for each in exposed]),
    )
    return tuple(rows), every


def _places(trace: Trace, found: Collectives) -> Iterator[_Place]:
    """Yield each device that communicates, or the host."""
    if not len(found):
        return
    if not found.on_device:
        communicates = np.zeros(len(trace.slices), np.bool_)
        communicates[found.row] = True
        communicates[found.host_row] = True
        every = np.arange(len(found))
        busy = busy_host(trace, communicates)
        yield _Place(HOST, found.start_ns, found.end_ns, every, busy)
        return
    work = device_work(trace)
    device_of = np.full(len(trace.slices), -1, np.int64)
    device_of[work.rows] = work.device
    for i, device in enumerate(work.devices):
        which = np.flatnonzero(device_of[found.row] == i)
        if len(which):
            compute = work.busy((work.device == i) & (work.kind == WorkKind.COMPUTE))
            yield _Place(device, found.start_ns[which], found.end_ns[which], which, compute)


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
