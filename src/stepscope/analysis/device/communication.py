"""Communication between devices, and how much of it overlaps with compute.

Compute is the time in which a kernel runs that does not communicate. Communication is exposed while
no such kernel runs: the device waits for its peers. See device_work for how communicating kernels
are recognised. A communicating kernel that waits for a straggler looks busy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.table import Table
from stepscope.analysis.flops.count import flops_per_second as per_second
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.element_types import element_bytes
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import COLLECTIVE, DTYPE, GROUP_SIZE, IN_ELEMENTS, OUT_ELEMENTS
from stepscope.trace.measures import Shown, measure, states
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import BANDWIDTH, BYTES, COUNT, SHARE, TEXT, TIME

_UNKNOWN = -1
_NCCL_NAME = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
_COLLECTIVE_WORD = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv|broadcast|cross_device_reduce",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CommunicationOverlap(Table):
    """One row per device; unions of intervals."""

    device: tuple[str, ...] = measure("Device", TEXT)
    communication_ns: Int64 = measure("Communication", TIME)
    compute_ns: Int64 = measure("Compute", TIME)
    overlap_ns: Int64 = measure("Both", TIME)

    @property
    @states("Exposed", TIME, "Communication without compute", after="overlap_ns")
    def exposed_ns(self) -> Int64:
        """Return the exposed communication: the time without compute."""
        return self.communication_ns - self.overlap_ns

    @property
    @states("Exposed %", SHARE, after="overlap_ns")
    def exposed_share(self) -> Float64:
        return self.exposed_ns / np.maximum(self.communication_ns, 1)


@dataclass(frozen=True, slots=True)
class CollectiveTable(Table):
    """One row per device, collective, type and size of the group, by time."""

    device: tuple[str, ...] = measure("Device", TEXT)
    collective: tuple[str, ...] = measure("Collective", TEXT)  # as the trace says, or the kernel
    dtype: tuple[str, ...] = measure("Type", TEXT)
    group_size: Int64 = measure("Ranks", COUNT)
    count: Int64 = measure("Count", COUNT)
    bytes: Int64 = measure("Size", BYTES, "The larger of input and output, where it is known")
    told_ns: Int64 = measure("Of known size", TIME, shown=Shown.DATA)
    total_ns: Int64 = measure("Total", TIME)
    exposed_ns: Int64 = measure("Exposed", TIME, "While no compute ran")

    @property
    @states("Bandwidth", BANDWIDTH, after="exposed_ns")
    def bytes_per_second(self) -> Float64:
        """Return the bytes of a call over its time, what NCCL's tests call algbw; 0 for unknown."""
        return per_second(self.bytes, self.told_ns)


def communication_overlap(trace: Trace, work: DeviceWork | None = None) -> CommunicationOverlap:
    """Return how much of every device's communication ran beside compute."""
    work = work or device_work(trace)
    numbers = []
    for device in range(len(work.devices)):
        mine = work.device == device
        talk = work.busy(mine & (work.kind == WorkKind.COMMUNICATION))
        compute = work.busy(mine & (work.kind == WorkKind.COMPUTE))
        numbers.append((talk.total_ns, compute.total_ns, talk.shared_with(compute).total_ns))
    return CommunicationOverlap(work.devices, *np.array(numbers, np.int64).reshape(-1, 3).T)


def collective_table(trace: Trace, work: DeviceWork | None = None) -> CollectiveTable:
    """Sum the communicating kernels up by collective, the longest first."""
    work = work or device_work(trace)
    slices = trace.slices
    pieces = np.flatnonzero(work.kind == WorkKind.COMMUNICATION)
    rows = work.rows[pieces]
    rest = slices.args.rest[rows] if len(slices.args.rest) else np.zeros(len(rows), np.uint32)
    group_size = slices.args.dense(GROUP_SIZE, len(slices), _UNKNOWN)[rows]
    elements = np.maximum(
        slices.args.dense(IN_ELEMENTS, len(slices), _UNKNOWN)[rows],
        slices.args.dense(OUT_ELEMENTS, len(slices), _UNKNOWN)[rows],
    )
    keys = np.stack([slices.name[rows], rest])
    kinds, which = np.unique(keys, axis=1, return_inverse=True)
    collectives = [
        _collective_and_type(trace, int(name), int(fragment)) for name, fragment in kinds.T
    ]
    kind_of = [collectives[i] for i in which.reshape(-1).tolist()]
    groups: dict[tuple[int, str, str, int], list[int]] = {}
    for i, (collective, dtype) in enumerate(kind_of):
        key = (int(work.device[pieces[i]]), collective, dtype, int(group_size[i]))
        groups.setdefault(key, []).append(i)
    table_rows = [
        (key, _group_numbers(work, pieces, np.array(members), elements, key[2]))
        for key, members in groups.items()
    ]
    table_rows.sort(key=lambda row: -row[1][3])
    numbers = np.array([row for _, row in table_rows], np.int64).reshape(-1, 5).T
    return CollectiveTable(
        tuple(work.devices[device] for (device, *_), _ in table_rows),
        tuple(collective for (_, collective, *_), _ in table_rows),
        tuple(dtype for (_, _, dtype, _), _ in table_rows),
        np.array([size for (*_, size), _ in table_rows], np.int64),
        *numbers,
    )


def _group_numbers(
    work: DeviceWork, pieces: Int64, members: Int64, elements: Int64, dtype: str
) -> tuple[int, int, int, int, int]:
    own = pieces[members]
    which = np.zeros(len(work), np.bool_)
    which[own] = True
    talk = work.busy(which)
    mine = work.device == work.device[own[0]]
    compute = work.busy(mine & (work.kind == WorkKind.COMPUTE))
    duration_ns = work.duration_ns[own]
    width = element_bytes(dtype)
    tells = (elements[members] != _UNKNOWN) & (width > 0)
    return (
        len(own),
        int(elements[members][tells].sum()) * width,
        int(duration_ns[tells].sum()),
        int(duration_ns.sum()),
        talk.total_ns - talk.shared_with(compute).total_ns,
    )


def collective_of_kernel(kernel: str) -> str:
    """Return the collective in a kernel's name; the name itself if there is none."""
    match = _NCCL_NAME.search(kernel)
    word = _COLLECTIVE_WORD.search(kernel)
    return match[1] if match else word[0] if word else kernel


def _collective_and_type(trace: Trace, name: int, fragment: int) -> tuple[str, str]:
    """Return the collective and its element type."""
    pairs = pairs_of(trace.strings[fragment])
    kernel = trace.strings[name]
    collective = pairs.get(COLLECTIVE)
    if not isinstance(collective, str):
        collective = collective_of_kernel(kernel)
    dtype = pairs.get(DTYPE, "")
    return collective, dtype if isinstance(dtype, str) else ""
