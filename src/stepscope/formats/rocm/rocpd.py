"""ROCm's rocpd files: rocprofv3's SQLite files in both layouts, and rocmProfileData's.

The tables of a process end in its id (``rocpd_kernel_dispatch_0000a1b2_...``); the views without an
id are for people. Early versions have times and threads in every table, later ones refer to
``rocpd_timestamp`` and ``rocpd_track``. A call and the work that it launched share a stack id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stepscope.errors import TraceReadError
from stepscope.formats.base.gathered import ABSENT, Gathered
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.formats.rocm.process import STRINGS, Process
from stepscope.formats.rocm.rpd import is_rpd, read_rpd
from stepscope.trace.model import Memory, Trace, TraceInfo
from stepscope.trace.validate import LATEST_NS

PRODUCER = "rocprofv3"

_MEMORY_COLUMNS = (
    *("start", "end", "start_id", "end_id", "track_id", "pid", "tid", "agent_id"),
    *("address", "size"),
)
_LARGEST = 1 << 56
_RELEASES = ("FREE", "RECLAIM")

_MemoryRow = tuple[int, int, int, int, int]  # time, address, size, device, track


def is_rocpd(file: SqliteFile) -> bool:
    """Tell whether an SQLite file is in ROCm's layout."""
    return is_rpd(file) or any(name.startswith(STRINGS) for name in file.tables)


def read_rocpd(file: SqliteFile) -> Trace:
    if is_rpd(file):
        return read_rpd(file)
    gathered = Gathered()
    suffixes = [name.removeprefix(STRINGS) for name in file.tables if name.startswith(STRINGS)]
    processes = [Process(file, gathered, suffixes, place) for place in range(len(suffixes))]
    for process in processes:
        process.add()
    memory = _memory_of(processes, gathered)
    if not len(gathered) and not len(memory):
        raise TraceReadError(
            file.path,
            f"is a rocpd file without an event (it has {len(file.tables)} tables)",
            "record with rocprofv3 --kernel-trace --memory-copy-trace --hip-trace",
        )
    devices = [device for process in processes for device in process.devices()]
    host = next((name for one in processes for name in one.texts("info_node", "hostname")), "")
    info = TraceInfo(PRODUCER, devices=devices, host=host)
    return gathered.trace(info, memory=memory)


def _memory_of(processes: Sequence[Process], gathered: Gathered) -> Memory:
    """Return allocations and releases; a release is matched to its block by address."""
    rows = sorted(row for process in processes for row in _memory_rows(process, gathered))
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


def _memory_rows(process: Process, gathered: Gathered) -> Iterator[_MemoryRow]:
    values = process.placed("memory_allocate", _MEMORY_COLUMNS)
    if values is None:
        return
    table = process.table("memory_allocate")
    kinds = [kind for _, (kind,) in process.file.keyed_texts(table, "id", ("type",))]
    blocks: dict[int, tuple[int, int]] = {}  # size and device of the block at each address
    columns = (values[name].tolist() for name in ("end", "address", "size", "agent_id"))
    places = zip(values["pid"].tolist(), values["tid"].tolist(), strict=True)
    rows = zip(kinds, places, *columns, strict=False)
    for kind, place, time_ns, address, size, agent in sorted(rows, key=lambda row: row[2]):
        if address == ABSENT or abs(time_ns) > LATEST_NS:
            continue
        track = gathered.track(process.thread_track(*place))
        before, device = blocks.pop(address, (0, 0))
        if before:  # releases have no agent and size; reuse of an address implies one
            yield time_ns, address, -before, device, track
        if kind not in _RELEASES and 0 < size < _LARGEST:
            device = gathered.text(f"hip:{process.device_of(agent)}")
            blocks[address] = (size, device)
            yield time_ns, address, size, device, track
