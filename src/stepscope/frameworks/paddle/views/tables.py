"""Paddle's views as typed rows, with units in their names; each converts to a DataFrame.

A row sums all events of a name or type, so there are few rows however many events there are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars

    from stepscope.trace.model import Int64

ALL_THREADS = "All threads merged"
OTHERS = "Others"


class Span(NamedTuple):
    total_ns: int
    max_ns: int
    min_ns: int
    self_ns: int  # without its children

    @staticmethod
    def of_columns(total: Int64, longest: Int64, shortest: Int64, own: Int64) -> list[Span]:
        """Return a span per row of parallel columns."""
        columns = (column.tolist() for column in (total, longest, shortest, own))
        return [Span(*numbers) for numbers in zip(*columns, strict=True)]

    @staticmethod
    def of(total_ns: int) -> Span:
        return Span(total_ns, 0, 0, 0)


class EventRow(NamedTuple):
    """One row of a view: all events of a name."""

    thread: str
    name: str
    level: int  # of details of operators: 1 for children, 2 for their kernels
    calls: int  # 0 in the row of the rest
    cpu: Span | None  # None for work on a device
    gpu: Span
    cpu_ratio: float = 0.0
    gpu_ratio: float = 0.0
    flops: int = 0
    operator: str = ""  # the operator that a detail row belongs to

    @property
    def cpu_ns(self) -> int:
        return self.cpu.total_ns if self.cpu else 0

    def with_ratios(self, cpu_ns: int, gpu_ns: int) -> EventRow:
        """Return the row with its shares of these times."""
        return self._replace(
            cpu_ratio=share(self.cpu_ns, cpu_ns), gpu_ratio=share(self.gpu.total_ns, gpu_ns)
        )


def share(part: float, whole: float) -> float:
    """Return ``part
    whole``; 0 if the whole is 0.
    """
    return part / whole if whole else 0.0


class DeviceRow(NamedTuple):
    """How busy a device was."""

    device: str
    utilization: float | None  # as a fraction of time; None if not measured


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The use of the processor, by this process and in total, and of each GPU."""

    rows: tuple[DeviceRow, ...]

    def to_polars(self) -> polars.DataFrame:
        import polars as pl

        schema = {"device": pl.String, "utilization": pl.Float64}
        return pl.DataFrame(self.rows, schema=schema, orient="row")


class OverviewRow(NamedTuple):
    """The events of one type; overlapping time counts once."""

    event_type: str
    on_device: bool
    calls: int
    time_ns: int
    ratio: float  # of the time of all steps


@dataclass(frozen=True, slots=True)
class OverviewTable:
    """Time by type of event, on the host and then on devices."""

    rows: tuple[OverviewRow, ...]

    def to_polars(self) -> polars.DataFrame:
        import polars as pl

        schema = {
            "event_type": pl.String,
            "on_device": pl.Boolean,
            "calls": pl.Int64,
            "time_ns": pl.Int64,
            "ratio": pl.Float64,
        }
        return pl.DataFrame(self.rows, schema=schema, orient="row")


class DistributionRow(NamedTuple):
    """A share of the time of all steps."""

    name: str
    time_ns: int
    ratio: float


@dataclass(frozen=True, slots=True)
class DistributionTable:
    """The time of communication, of computation, and of both at once."""

    rows: tuple[DistributionRow, ...]  # empty without communication

    def to_polars(self) -> polars.DataFrame:
        import polars as pl

        schema = {"name": pl.String, "time_ns": pl.Int64, "ratio": pl.Float64}
        return pl.DataFrame(self.rows, schema=schema, orient="row")


@dataclass(frozen=True, slots=True)
class EventTable:
    """Events by name: the Model, Operator, Kernel, Memory Manipulation and UserDefined views."""

    rows: tuple[EventRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a Polars DataFrame; null where a row has no value."""
        import polars as pl

        numbers = {
            f"{unit}_{name}": (pl.Float64 if name in {"avg_ns", "ratio"} else pl.Int64)
            for unit in ("cpu", "gpu")
            for name in ("total_ns", "avg_ns", "max_ns", "min_ns", "self_ns", "ratio")
        }
        schema = {
            "thread": pl.String,
            "operator": pl.String,
            "name": pl.String,
            "level": pl.Int64,
            "calls": pl.Int64,
            **numbers,
            "flops": pl.Int64,
        }
        return pl.DataFrame([_flat(row) for row in self.rows], schema=schema, orient="row")


def _flat(row: EventRow) -> tuple[str | float | None, ...]:
    def numbers(span: Span | None, ratio: float) -> tuple[float | None, ...]:
        if span is None:
            return (None,) * 6
        if not row.calls:
            return span.total_ns, None, None, None, None, ratio
        average = span.total_ns / row.calls
        return span.total_ns, average, span.max_ns, span.min_ns, span.self_ns, ratio

    cpu, gpu = numbers(row.cpu, row.cpu_ratio), numbers(row.gpu, row.gpu_ratio)
    return row.thread, row.operator, row.name, row.level, row.calls, *cpu, *gpu, row.flops


@dataclass(frozen=True, slots=True)
class Peak:
    """The most memory that a place has had."""

    allocated_bytes: int
    reserved_bytes: int


class MemoryRow(NamedTuple):
    """What the events of one name did with the memory of one place."""

    place: str
    name: str
    type: str  # "Allocated", or "Reserved" for memory that the allocator took from the device
    allocations: int
    frees: int
    allocated_bytes: int
    freed_bytes: int

    @property
    def increased_bytes(self) -> int:
        return self.allocated_bytes - self.freed_bytes


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """Memory by the event that allocated or released it; every byte is in one row only."""

    rows: tuple[MemoryRow, ...]
    peaks: Mapping[str, Peak]  # by place

    def __len__(self) -> int:
        return len(self.rows)

    def to_polars(self) -> polars.DataFrame:
        import polars as pl

        schema = {
            **dict.fromkeys(("place", "name", "type"), pl.String),
            **dict.fromkeys(("allocations", "frees"), pl.Int64),
            **dict.fromkeys(("allocated_bytes", "freed_bytes", "increased_bytes"), pl.Int64),
        }
        rows = [(*row, row.increased_bytes) for row in self.rows]
        return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass(frozen=True, slots=True)
class SummaryTables:
    """One table per view of Paddle's, in the order in which Paddle prints them."""

    total_ns: int  # the time of all steps, which ratios refer to
    has_steps: bool  # False: total_ns is the whole recording
    device: DeviceTable
    overview: OverviewTable
    model: EventTable
    distribution: DistributionTable
    operators: EventTable
    kernels: EventTable
    memory_manipulation: EventTable
    user_defined: EventTable
    memory: MemoryTable

    def to_polars(self) -> dict[str, polars.DataFrame]:
        """Return every view as a Polars DataFrame, by its attribute name."""
        return {
            field.name: getattr(self, field.name).to_polars()
            for field in fields(self)
            if field.name not in {"total_ns", "has_steps"}
        }
