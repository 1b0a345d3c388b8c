"""Nsight Compute's CSV: ``ncu --csv``, a metric per line, or ``--page raw``, a kernel per line.

The tool runs kernels one at a time and reports durations but no times: here they follow each other
in the order of their numbers. All metrics are arguments of the kernel.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from stepscope.errors import TraceReadError
from stepscope.formats.base.gathered import Gathered, device_track
from stepscope.formats.base.gzip import text_chunks
from stepscope.formats.base.registry import Progress
from stepscope.trace.model import Trace, TraceInfo
from stepscope.units import size_text

PRODUCER = "Nsight Compute"
_HEAD = re.compile(rb'^"?ID"?,.*"?Kernel Name"?', re.MULTILINE)
_UNITS_NS = {
    "nsecond": 1, "ns": 1, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9,
    "s": 1e9,
}  # fmt: skip
_DURATIONS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.max")
_PLACE = frozenset(
    {
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
        *("Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name"),
        *("Metric Unit", "Metric Value", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR"),
    }
)
_LONGEST_BYTES = 256 << 20
_LONGEST_S = 1e9 * 86_400  # a day, too long for one kernel


class _Kernel:
    """A launch: its place, and its metrics with their units."""

    def __init__(self, row: dict[str, str]) -> None:
        self.row = row
        self.metrics: dict[str, tuple[str, str]] = {}

    def duration_ns(self) -> int:
        for name in _DURATIONS:
            value, unit = self.metrics.get(name, ("", ""))
            number, factor = _number(value), _UNITS_NS.get(unit.strip().lower())
            if number is not None and factor and 0 <= number * factor < _LONGEST_S:
                return round(number * factor)
        return 0

    def shape(self) -> dict[str, list[int]]:
        grid, block = (_sizes(self.row.get(f"{what} Size", "")) for what in ("Grid", "Block"))
        return {"grid": grid, "block": block} if grid and block else {}

    def integer(self, column: str) -> int:
        match = re.search(r"-?\d{1,9}", self.row.get(column, ""))
        return int(match[0]) if match else 0

    def arguments(self) -> dict[str, str | float]:
        arguments: dict[str, str | float] = {}
        for name, (value, unit) in self.metrics.items():
            number = _number(value)
            key = f"{name} [{unit}]" if unit else name
            arguments[key] = value if number is None else number
        return arguments


def is_ncu(head: bytes) -> bool:
    """Tell whether a text has the table's header; the tool may print lines before it."""
    return _HEAD.search(head[:20_000]) is not None


def read_ncu(path: Path, progress: Progress | None = None) -> Trace:
    """Read a table that ``ncu --csv`` printed."""
    kernels = _kernels(path, _text_of(path, progress))
    gathered = Gathered()
    duration = np.array([kernel.duration_ns() for kernel in kernels], np.int64)
    end = np.cumsum(duration)
    device = np.array([kernel.integer("Device") for kernel in kernels], np.int64)
    stream = np.array([kernel.integer("Stream") for kernel in kernels], np.int64)
    tracks = [
        gathered.track(device_track(*place))
        for place in zip(device.tolist(), stream.tolist(), strict=True)
    ]
    rest = [gathered.fragment({**kernel.shape(), **kernel.arguments()}) for kernel in kernels]
    gathered.add_slices(
        "kernel",
        gathered.texts(kernel.row.get("Kernel Name", "") for kernel in kernels),
        (end - duration, end),
        np.array(tracks, np.uint32),
        integers={"device": device, "stream": stream},
        rest=np.array(rest, np.uint32),
    )
    first = kernels[0].row
    return gathered.trace(TraceInfo(PRODUCER, host=first.get("Host Name", "")))


def _text_of(path: Path, progress: Progress | None) -> str:
    parts, size = [], 0
    with text_chunks(path) as chunks:
        whole = path.stat().st_size
        for chunk in chunks:
            parts.append(chunk.text)
            size += len(chunk.text)
            if size > _LONGEST_BYTES:
                raise TraceReadError(path, f"is a table of more than {size_text(_LONGEST_BYTES)}")
            if progress is not None:
                progress(chunk.file_bytes, whole)
    return b"".join(parts).decode("utf-8-sig", "replace")


def _kernels(path: Path, text: str) -> Sequence[_Kernel]:
    kernels: dict[str, _Kernel] = {}
    try:
        for row in _rows(text):
            kernel = kernels.setdefault(row.get("ID", ""), _Kernel(row))
            if "Metric Name" in row:
                kernel.metrics[row["Metric Name"]] = row.get("Metric Value", ""), row["Metric Unit"]
            else:
                for name, value in row.items():
                    if name not in _PLACE and value:
                        base, _, unit = name.partition("\0")
                        kernel.metrics[base] = value, unit
    except csv.Error as error:
        raise TraceReadError(path, f"is a damaged CSV file: {error}") from None
    if not kernels:
        way_out = "print one with ncu --csv --import REPORT"
        raise TraceReadError(path, "is a table of Nsight Compute without a kernel", way_out)
    return list(kernels.values())


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the table's rows; in wide tables the units follow the header."""
    lines = csv.reader(io.StringIO(text))
    header: list[str] = []
    for cells in lines:
        if not header:
            header = cells if "ID" in cells and "Kernel Name" in cells else []
            continue
        if len(cells) < len(header) // 2:
            continue  # output of the tool after the table
        row = dict(zip(header, cells, strict=False))
        if not row.get("ID", "").strip():  # the units
            header = [
                name if name in _PLACE or not unit else f"{name}\0{unit}"
                for name, unit in zip(header, cells, strict=False)
            ]
            continue
        if "Metric Name" in row:
            row.setdefault("Metric Unit", "")
        yield row


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _sizes(text: str) -> list[int]:
    sizes = [int(size) for size in re.findall(r"\d{1,10}", text)]
    return sizes if len(sizes) == 3 else []
