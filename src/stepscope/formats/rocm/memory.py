"""Allocations in rocpd files, as events of a Trace's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stepscope.formats.gathered import ABSENT, Gathered
from stepscope.formats.rocm.process import Process
from stepscope.trace.model import Memory
from stepscope.trace.validate import LATEST_NS

_COLUMNS = (
    *("start", "end", "start_id", "end_id", "track_id", "pid", "tid", "agent_id"),
    *("address", "size"),
)
_LARGEST = 1 << 56
_RELEASES = ("FREE", "RECLAIM")

Row = tuple[int, int, int, int, int]  # time, address, size, device, track


def memory_of(processes: Sequence[Process], gathered: Gathered) -> Memory:
    """Return allocations and releases; a release is matched to its block by address."""
    rows = sorted(row for process in processes for row in _rows(process, gathered))
    if not rows:
        return Memory.empty()
    in_use: dict[int, int] = {}
    totals = []
    for _, _, size, device, _ in rows:
        in_use[device] = in_use.get(device, 0) + size
        totals.append(max(in_use[device], 0))
    time_ns, address, size, device, track = np.array(rows, np.int64).T
    return Memory.of(
        time_ns=np.ascontiguousarray(time_ns),
        address=np.ascontiguousarray(address),
        size=np.ascontiguousarray(size),
        device=device.astype(np.uint32),
        track=track.astype(np.uint32),
        slice=np.full(len(rows), -1, np.int32),
        allocated=np.array(totals, np.int64),
        reserved=np.zeros(len(rows), np.int64),
    )


def _rows(process: Process, gathered: Gathered) -> Iterator[Row]:
    found = process.placed("memory_allocate", _COLUMNS)
    if found is None:
        return
    table = process.table("memory_allocate")
    kinds = [kind for _, (kind,) in process.file.told(table, "id", ("type",))]
    held: dict[int, tuple[int, int]] = {}  # by address: what is there, and on which device
    columns = (found[name].tolist() for name in ("end", "address", "size", "agent_id"))
    places = zip(found["pid"].tolist(), found["tid"].tolist(), strict=True)
    rows = zip(kinds, places, *columns, strict=False)
    for kind, place, time_ns, address, told, agent in sorted(rows, key=lambda row: row[2]):
        if address == ABSENT or abs(time_ns) > LATEST_NS:
            continue
        track = gathered.track(process.thread_track(*place))
        before, device = held.pop(address, (0, 0))
        if before:  # a release names no agent and no size; one that is missing is told by reuse
            yield time_ns, address, -before, device, track
        if kind not in _RELEASES and 0 < told < _LARGEST:
            device = gathered.text(f"hip:{process.device_of(agent)}")
            held[address] = (told, device)
            yield time_ns, address, told, device, track
