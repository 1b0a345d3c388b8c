"""SQLite files, which several tools write; their tables identify the tool."""

from __future__ import annotations

from pathlib import Path

from stepscope.errors import TraceReadError
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sqlite_file import sqlite_file
from stepscope.formats.nsight.systems import is_nsight, read_nsight
from stepscope.formats.rocm.rocpd import is_rocpd, read_rocpd
from stepscope.trace.model import Trace

_SHOWN = 6


def read_database(path: Path, progress: Progress | None = None) -> Trace:
    """Read an export of Nsight Systems, or what ROCm's profilers wrote."""
    with sqlite_file(path, progress) as file:
        if is_rocpd(file):
            return read_rocpd(file)
        if is_nsight(file):
            return read_nsight(file)
        tables = ", ".join(repr(name[:40]) for name in file.tables[:_SHOWN]) or "none"
        raise TraceReadError(
            path,
            f"is an SQLite file, but not from a known profiler; its tables: {tables}",
            "give what `nsys export --type sqlite` or rocprofv3 wrote",
        )
