"""ROCm's rocpd files: what rocprofv3 writes (SQLite), in both layouts, and rocmProfileData's.

The tables of a process end in its id (``rocpd_kernel_dispatch_0000a1b2_...``); the views without it
are for people. Early versions have times and threads in every table, later ones refer to
``rocpd_timestamp`` and ``rocpd_track``. A call and the work that it launched share a stack id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.errors import TraceReadError
from stepscope.formats.gathered import Gathered
from stepscope.formats.rocm.memory import memory_of
from stepscope.formats.rocm.process import STRINGS, Process
from stepscope.formats.rocm.rpd import is_rpd, read_rpd
from stepscope.trace.model import Trace, TraceInfo

if TYPE_CHECKING:
    from stepscope.formats.sqlite_file import SqliteFile

PRODUCER = "rocprofv3"


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
    memory = memory_of(processes, gathered)
    if not len(gathered) and not len(memory):
        raise TraceReadError(
            file.path,
            f"is a rocpd file without an event (it has {len(file.tables)} tables)",
            "record with rocprofv3 --kernel-trace --memory-copy-trace --hip-trace",
        )
    devices = [device for process in processes for device in process.devices()]
    host = next((name for each in processes for name in each.texts("info_node", "hostname")), "")
    info = TraceInfo(PRODUCER, devices=devices, host=host)
    return gathered.trace(info, memory=memory)
