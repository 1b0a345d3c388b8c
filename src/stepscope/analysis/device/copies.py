"""Copies of memory: how much, how fast, and how much of it ran beside kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope import units
from stepscope.analysis.base.table import Table
from stepscope.analysis.flops.count import flops_per_second as per_second
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.keys import BYTES
from stepscope.trace.measures import Shown, measure, states
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import BANDWIDTH, COUNT, SHARE, TEXT, TIME

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class CopyTable(Table):
    """One row per device and kind of copy, by time: ``Memcpy HtoD (Pinned -> Device)``."""

    device: tuple[str, ...] = measure("Device", TEXT)
    name: tuple[str, ...] = measure("Copy", TEXT)
    count: Int64 = measure("Count", COUNT)
    bytes: Int64 = measure("Size", units.BYTES, "Of the copies with a known size")
    untold: Int64 = measure("Size unknown", COUNT)
    total_ns: Int64 = measure("Time", TIME)
    busy_ns: Int64 = measure("Busy", TIME, "A moment of two copies counts once", shown=Shown.DATA)
    hidden_ns: Int64 = measure("Overlapped", TIME, "While a kernel ran on the device")

    @property
    @states("Overlapped %", SHARE, "Of the time in which copies ran", after="hidden_ns")
    def hidden_share(self) -> Float64:
        return self.hidden_ns / np.maximum(self.busy_ns, 1)

    @property
    @states("Exposed", TIME, "While no kernel ran", after="hidden_ns", shown=Shown.PAGES)
    def exposed_ns(self) -> Int64:
        """Return the time in which copies ran and no kernel did."""
        return self.busy_ns - self.hidden_ns

    @property
    @states("Bandwidth", BANDWIDTH, after="total_ns")
    def bytes_per_second(self) -> Float64:
        """Return what the copies achieved while they ran; 0 where no size is known."""
        return per_second(self.bytes, self.total_ns)


def copy_table(trace: Trace, work: DeviceWork | None = None) -> CopyTable:
    """Sum the copies up by device and kind, the longest first."""
    work = work or device_work(trace)
    size = trace.slices.args.dense(BYTES, len(trace.slices), _UNKNOWN)[work.rows]
    is_copy = work.kind == WorkKind.COPY
    kernels = [work.busy((work.device == d) & work.is_kernel) for d in range(len(work.devices))]
    names = trace.slices.name[work.rows]
    keys = np.unique(np.stack([work.device[is_copy], names[is_copy].astype(np.int64)]), axis=1)
    rows = []
    for device, name in keys.T.tolist():
        which = is_copy & (work.device == device) & (names == name)
        busy = work.busy(which)
        numbers = (
            int(which.sum()),
            int(size[which & (size != _UNKNOWN)].sum()),
            int((which & (size == _UNKNOWN)).sum()),
            int(work.duration_ns[which].sum()),
            busy.total_ns,
            busy.shared_with(kernels[device]).total_ns,
        )
        rows.append((work.devices[device], trace.strings[name], numbers))
    rows.sort(key=lambda row: -row[2][4])
    columns = np.array([numbers for _, _, numbers in rows], np.int64).reshape(-1, 6).T
    return CopyTable(
        tuple(device for device, _, _ in rows), tuple(name for _, name, _ in rows), *columns
    )
