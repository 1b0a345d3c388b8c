"""Events summed by name: the numbers behind ``key_averages()`` and every summary table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels, name_labels, overload_labels, shape_labels
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.base.tree import CallTree, call_tree
from stepscope.analysis.calls.launches import Launches, along_calls, launches
from stepscope.analysis.code.stacks import stack_labels, stack_of_events
from stepscope.analysis.memory.by_event import with_memory
from stepscope.trace.measures import (
    Measure,
    Sums,
    measure,
    measured,
    measures_of,
    measures_of_calls,
)
from stepscope.trace.model import (
    NO_PARENT,
    Bool,
    Float64,
    Int64,
    SliceFlags,
    SliceKind,
    Trace,
    UInt32,
)
from stepscope.trace.table import added_columns
from stepscope.units import BYTES, FLOPS, TIME

if TYPE_CHECKING:
    import polars

Columns = dict[str, Sequence[Any] | NDArray[Any]]

ANNOTATION_KINDS = (SliceKind.RANGE, SliceKind.STEP, SliceKind.DEVICE_RANGE)


@dataclass(frozen=True, slots=True)
class Averages(Table):
    """One row per group of events, in the order in which the groups were first seen.

    A list of single events has the same shape: every group is one event.
    """

    key: Labels[str]
    count: Int64
    first: UInt32  # the group's first event: an index of its CallTree
    is_device: Bool
    is_annotation: Bool
    is_async: Bool  # the first ended on another thread than it started on
    is_top_level: Bool  # the first has no parent
    cpu_ns: Int64 = measure(
        "Total time", TIME, "On the host, with the calls inside; nested ones of a name count once",
        Sums.CALLS,
    )  # fmt: skip
    self_cpu_ns: Int64 = measure(
        "Self time", TIME, "On the host, without the calls inside and without waiting", Sums.ADDED
    )
    device_ns: Int64 = measure(
        "Total device", TIME, "Of the device work that it and the calls inside launched", Sums.CALLS
    )
    self_device_ns: Int64 = measure(
        "Self device", TIME, "Time of the device work that it launched itself", Sums.ADDED
    )
    cpu_bytes: Int64 | None = measure(  # None: memory was not recorded
        "Memory", BYTES, "Allocated less freed on the CPU", Sums.CALLS, default=None
    )
    self_cpu_bytes: Int64 | None = measure(
        "Self memory", BYTES, "Allocated less freed on the CPU, without the calls inside",
        Sums.ADDED, default=None,
    )  # fmt: skip
    device_bytes: Int64 | None = measure(
        "Device memory", BYTES, "Allocated less freed on devices", Sums.CALLS, default=None
    )
    self_device_bytes: Int64 | None = measure(
        "Self device memory", BYTES, "Allocated less freed on devices, without the calls inside",
        Sums.ADDED, default=None,
    )  # fmt: skip
    flops: Int64 | None = measure(  # None: not asked for
        "FLOPs", FLOPS, "Floating-point operations, counted from the input shapes", Sums.ADDED,
        default=None,
    )  # fmt: skip
    input_shapes: Labels[str] | None = None  # None: not asked for
    overload_name: Labels[str] | None = None
    stack: Labels[tuple[str, ...]] | None = None  # the innermost frame first
    added: Mapping[str, Int64] = added_columns()

    @classmethod
    def measures(cls) -> dict[str, Measure]:
        """Return the measures that add up, those from outside the package included."""
        return {**measures_of(cls), **measures_of_calls()}

    def sums(self) -> dict[str, Int64]:
        """Return the known columns that add up."""
        stated = {name: getattr(self, name) for name in measures_of(Averages)}
        stated_columns = {name: column for name, column in stated.items() if column is not None}
        return {**stated_columns, **self.added}

    @property
    def total_self_cpu_ns(self) -> int:
        """Return the time on the host; moments of nested calls count once."""
        return int(self.self_cpu_ns.sum())

    @property
    def total_self_device_ns(self) -> int:
        """Return the time of all device work; ranges on the device contain work, but are none."""
        return int(self.self_device_ns[self.is_device & ~self.is_annotation].sum())

    @property
    def flops_per_second(self) -> Float64:
        """Return the FLOP/s of the calls, in device time if there is any, else in host time."""
        ns = np.where(self.device_ns > 0, self.device_ns, self.cpu_ns)
        flops = np.zeros(len(self), np.int64) if self.flops is None else self.flops
        rate: Float64 = flops * 1e9 / np.maximum(ns, 1)
        return rate

    def to_columns(self) -> Columns:
        """Return the groups as columns by name: times in ns, sizes in bytes; no unknown columns."""
        texts: dict[str, Labels[Any] | None] = {
            "key": self.key,
            "input_shapes": self.input_shapes,
            "overload": self.overload_name,
            "stack": self.stack,
        }
        columns: Columns = {
            name: list(column) for name, column in texts.items() if column is not None
        }
        for name in _FLAGS_AND_COUNT:
            columns[name] = np.asarray(getattr(self, name))
        columns |= {name: np.asarray(column) for name, column in self.sums().items()}
        if self.flops is not None:
            columns["flops_per_second"] = self.flops_per_second
        return columns

    def to_polars(self) -> polars.DataFrame:
        """Return the groups as a Polars DataFrame; times in ns, sizes in bytes."""
        return polars_frame(self.to_columns())


_FLAGS_AND_COUNT = ("is_device", "is_annotation", "is_async", "count")


def averages(
    of: Trace | CallTree,
    *,
    by_shapes: bool = False,
    by_overload: bool = False,
    stack_frames: int = 0,
) -> Averages:
    """Sum events by name, device type, and whether they are user ranges.

    Of a Trace, all events count, and what memory they allocated and freed if that was recorded.
    """
    tree = of if isinstance(of, CallTree) else with_memory(call_tree(of))
    return grouped(
        single_events(tree, by_shapes=by_shapes, by_overload=by_overload, stack_frames=stack_frames)
    )


def grouped(events: Averages) -> Averages:
    """Sum single events into groups; by shapes, overloads and stacks, too, if given."""
    group = events.key.codes.astype(np.intp)
    group *= 4
    group += events.is_annotation.astype(np.uint8) + 2 * events.is_device.astype(np.uint8)
    groups = 4 * len(events.key.texts)
    for extra in (events.input_shapes, events.overload_name, events.stack):
        if extra is not None:
            group, groups = _refined(group, extra)
    count = np.bincount(group, minlength=groups)
    first = _first_seen(group, groups)
    order = np.flatnonzero(count)
    order = order[np.argsort(first[order])]
    first = first[order]

    def total(column: Int64) -> Int64:
        if column.strides == (0,):
            return np.zeros(len(order), np.int64)
        return summed(group, column, groups)[order]

    sums = {name: total(column) for name, column in events.sums().items()}
    return events.take(first).replaced({"first": first, "count": count[order], **sums})


def single_events(
    tree: CallTree,
    *,
    by_shapes: bool = False,
    by_overload: bool = False,
    stack_frames: int = 0,
    with_flops: bool = False,
) -> Averages:
    """Return every event as a group of its own.

    ``stack_frames`` is how many of the innermost stack frames distinguish events.
    """
    slices, events = tree.trace.slices, len(tree)
    none: Int64 = np.broadcast_to(np.int64(0), events)
    flags = tree.of(slices.flags)
    is_annotation = np.zeros(256, np.bool_)
    is_annotation[list(ANNOTATION_KINDS)] = True
    device: Launches | None = launches(tree)
    memory = tree.memory
    stacks = stack_of_events(tree) if stack_frames > 0 else None
    return Averages(
        key=name_labels(tree),
        count=np.broadcast_to(np.int64(1), events),
        first=np.arange(events, dtype=np.uint32),
        is_device=np.broadcast_to(False, events) if tree.is_device is None else tree.is_device,
        is_annotation=is_annotation.take(tree.of(slices.kind)),
        is_async=(flags & np.uint8(SliceFlags.ASYNC)).astype(np.bool_),
        is_top_level=tree.parent == NO_PARENT,
        cpu_ns=_on_host(tree, tree.of(slices.duration_ns)),
        self_cpu_ns=_on_host(tree, tree.self_ns),
        device_ns=none if device is None else device.device_ns,
        self_device_ns=none if device is None else device.self_device_ns,
        cpu_bytes=None if memory is None else memory.cpu,
        self_cpu_bytes=None if memory is None else memory.self_cpu,
        device_bytes=None if memory is None else memory.device,
        self_device_bytes=None if memory is None else memory.self_device,
        flops=_flops(tree) if with_flops else None,
        input_shapes=shape_labels(tree) if by_shapes else None,
        overload_name=overload_labels(tree) if by_overload else None,
        stack=stack_labels(stacks, events, tree.trace.strings, stack_frames)
        if stack_frames > 0
        else None,
        added=_added_columns(tree),
    )


def _added_columns(tree: CallTree) -> dict[str, Int64]:
    """Return the measures from outside the package that the events have."""
    columns: dict[str, Int64] = {}
    for added, values in measured(tree.trace.slices):
        if added.sums is Sums.ADDED:
            whole, own = along_calls(tree, tree.sums_of(values))
            columns |= {f"self_{added.name}": own, added.name: whole}
    return columns


def added(one: Averages, other: Averages) -> Averages:
    """Return rows with the sums of two tables; other columns are the first's."""
    mine, theirs = one.sums() | {"count": one.count}, other.sums() | {"count": other.count}
    both = {name: mine[name] + theirs[name] for name in mine.keys() & theirs.keys()}
    return one.replaced({**theirs, **mine, **both})


def polars_frame(columns: Columns) -> polars.DataFrame:
    """Return columns as a Polars DataFrame, stacks as lists of texts."""
    import polars as pl

    stacks = {"stack": pl.List(pl.String)} if "stack" in columns else None
    return pl.DataFrame(columns, schema_overrides=stacks)


def total_of(rows: Averages) -> Averages:
    """Return one group named ``Total`` that sums all others."""
    one = np.zeros(1, np.uint32)

    is_never = np.zeros(1, np.bool_)
    sums: dict[str, Any] = {
        name: np.array([column.sum()], np.int64) for name, column in rows.sums().items()
    }
    count = np.array([rows.count.sum()], np.int64)
    added_sums = {name: sums.pop(name) for name in rows.added}
    key = Labels(one, ("Total",))
    return Averages(
        key, count, one, is_never, is_never, is_never, ~is_never, **sums, added=added_sums
    )


def _flops(tree: CallTree) -> Int64:
    from stepscope.analysis.flops.count import flops_of

    flops = flops_of(tree.trace)
    if not flops.any():
        return np.broadcast_to(np.int64(0), len(tree))
    return tree.sums_of(flops)


def _on_host(tree: CallTree, ns: Int64) -> Int64:
    return ns if tree.is_device is None else np.where(tree.is_device, 0, ns)


def _refined(group: NDArray[np.intp], by: Labels[Any]) -> tuple[NDArray[np.intp], int]:
    """Split groups by one more column and renumber them densely."""
    distinct, refined = np.unique(group * len(by.texts) + by.codes, return_inverse=True)
    return refined, len(distinct)


def _first_seen(group: NDArray[np.intp], groups: int) -> UInt32:
    first = np.full(groups, len(group), np.uint32)
    np.minimum.at(first, group, np.arange(len(group), dtype=np.uint32))
    return first
