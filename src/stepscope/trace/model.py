"""The Trace: what every source fills, every analysis reads and every renderer writes.

Events are rows of NumPy columns, never Python objects. The columns are stated in
``trace/schema.py``; this module has the Trace itself, and re-exports the related names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from stepscope.arguments import file_path
from stepscope.registry import Registry
from stepscope.trace.kinds import (
    DEVICE_KINDS,
    RUNNING_STATES,
    MemoryOwner,
    SliceFlags,
    SliceKind,
    ThreadState,
    WaitReason,
)
from stepscope.trace.schema import (
    NO_CORRELATION,
    NO_PARENT,
    NO_SEQUENCE,
    NO_SLICE,
    NO_STACK,
    NO_STEP,
    NO_THREAD,
    PRODUCER,
    Captured,
    Held,
    Losses,
    Marks,
    Memory,
    Owners,
    Samples,
    Slices,
    Stacks,
    TraceInfo,
    Track,
)
from stepscope.trace.table import Args, Bool, Float64, Int32, Int64, IntColumn, UInt8, UInt32
from stepscope.units import count_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    import pandas
    import polars

__all__ = [
    "DEVICE_KINDS",
    "NOTEBOOK",
    "NO_CORRELATION",
    "NO_PARENT",
    "NO_SEQUENCE",
    "NO_SLICE",
    "NO_STACK",
    "NO_STEP",
    "NO_THREAD",
    "PRODUCER",
    "QUERIES",
    "RUNNING_STATES",
    "Args",
    "Bool",
    "Captured",
    "Device",
    "Float64",
    "Held",
    "Int32",
    "Int64",
    "IntColumn",
    "Losses",
    "Marks",
    "Memory",
    "MemoryOwner",
    "Owners",
    "Samples",
    "SliceFlags",
    "SliceKind",
    "Slices",
    "Stacks",
    "ThreadState",
    "Trace",
    "TraceInfo",
    "Track",
    "UInt8",
    "UInt32",
    "WaitReason",
]


@dataclass(frozen=True, slots=True)
class Device:
    """A device; unknown values are 0 or empty."""

    id: int
    name: str
    memory_bytes: int = 0
    multiprocessors: int = 0
    compute_capability: tuple[int, int] = (0, 0)
    properties: Mapping[str, Any] = field(default_factory=dict)  # all, under Kineto's names


def devices_of(info: TraceInfo) -> tuple[Device, ...]:
    """Return the devices that our recorder noted, or that a foreign file's header describes."""
    described: Any = info.devices or info.user.get("deviceProperties") or ()
    if not isinstance(described, list | tuple):
        return ()
    return tuple(
        _device(i, properties)
        for i, properties in enumerate(described)
        if isinstance(properties, Mapping)
    )


def _device(place: int, properties: Mapping[str, Any]) -> Device:
    return Device(
        id=_number(properties, "id", place),
        name=str(properties.get("name", "")),
        memory_bytes=_number(properties, "totalGlobalMem"),
        multiprocessors=_number(properties, "numSms"),
        compute_capability=(
            _number(properties, "computeMajor"),
            _number(properties, "computeMinor"),
        ),
        properties=properties,
    )


def _number(properties: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = properties.get(key)
    return value if type(value) is int else default


@dataclass(frozen=True, slots=True, repr=False)
class Trace(Captured):
    """A recording, or a file that was read: immutable columns and their meaning."""

    info: TraceInfo = field(kw_only=True)

    def __len__(self) -> int:
        """Return the number of slices."""
        return len(self.slices)

    def __repr__(self) -> str:
        """Say in a few words what it holds; ``to_polars()`` shows the events."""
        info, steps = self.info, int((self.slices.kind == SliceKind.STEP).sum())
        window_ns = max(info.end_ns - info.start_ns, 0)
        others = (
            (steps, "step"),
            (len(self.tracks), "track"),
            (len(self.samples), "sample"),
            (len(self.memory), "memory event"),
            (len(self.marks), "mark"),
        )
        counts = [count_text(number, word) for number, word in others if number]
        contents = ", ".join(
            [f"{count_text(len(self), 'event')} in {duration_text(window_ns)}", *counts]
        )
        lost = f"; {info.losses.events:,} events were lost" if info.losses.events else ""
        return f"<Trace of {contents}; from {info.producer or 'an unknown tool'}{lost}>"

    def name_of(self, row: int) -> str:
        """Return the name of one slice."""
        return self.strings[int(self.slices.name[row])]

    def names(self) -> Iterator[str]:
        """Yield the name of every slice."""
        decoded = self.strings.decode_all()
        return (decoded[i] for i in self.slices.name)

    @property
    def losses(self) -> Losses:
        """Return how much was dropped, and why."""
        return self.info.losses

    def devices(self) -> tuple[Device, ...]:
        """Return what is known about the devices, in our recordings and in foreign files alike."""
        return devices_of(self.info)

    def to_polars(self) -> polars.DataFrame:
        """Return the slices as a Polars DataFrame, names and threads spelled out."""
        from stepscope.trace.frames import slices_frame

        return slices_frame(self)

    def sql(self, query: str, engine: str = "polars") -> polars.DataFrame:
        """Return the rows that an SQL query asks for; ``docs/sql.md`` has the tables and columns.

        ``engine="duckdb"`` runs it in DuckDB, which must be installed.
        """
        for run in QUERIES:
            return run({"trace": self}, query, engine)
        raise LookupError("nothing that runs queries is registered")

    def to_pandas(self) -> pandas.DataFrame:
        """Return the slices as a pandas DataFrame (needs pandas and pyarrow)."""
        return self.to_polars().to_pandas()

    def save(
        self,
        path: str | PathLike[str],
        progress: Callable[[int, int], None] | None = None,
        *,
        overwrite: bool = False,
    ) -> None:
        """Write the trace as a folder of Arrow files."""
        from stepscope.trace.store import save

        file_path("path", path)
        save(self, self.info, path, progress, overwrite=overwrite)

    def _repr_html_(self) -> str:
        """Return the overview for a notebook."""
        return "".join(show(self) for show in NOTEBOOK)

    @staticmethod
    def load(
        path: str | PathLike[str], progress: Callable[[int, int], None] | None = None
    ) -> Trace:
        """Read a folder that ``save`` wrote, or that a program has recorded into."""
        from stepscope.trace.placing import RECORDINGS
        from stepscope.trace.store import is_stored_trace, load

        file_path("path", path)
        for open_recording in () if is_stored_trace(path) else RECORDINGS:
            recording: Trace | None = open_recording(path)
            if recording is not None:
                return recording
        captured, info = load(path, progress)
        return with_info(captured, info)


def save_trace(
    trace: Trace,
    path: str | PathLike[str],
    progress: Callable[[int, int], None] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write a trace as a folder of Arrow files."""
    trace.save(path, progress, overwrite=overwrite)


def with_info(captured: Captured, info: TraceInfo) -> Trace:
    tables = {table.name: getattr(captured, table.name) for table in fields(Captured)}
    return Trace(**tables, info=info)


# Functions that run SQL over named traces.
QUERIES: Registry[Callable[[Mapping[str, Trace], str, str], polars.DataFrame]] = Registry()

# Functions that render a trace for a notebook; the report adds one.
NOTEBOOK: Registry[Callable[[Trace], str]] = Registry()
