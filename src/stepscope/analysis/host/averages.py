"""Events summed by name: the numbers behind ``key_averages()`` and every summary table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.labels import Labels, name_labels, overload_labels, shape_labels
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.base.tree import CallTree, call_tree
from stepscope.analysis.calls.launches import Launches, launches
from stepscope.analysis.code.stacks import stack_labels, stack_of_events
from stepscope.analysis.memory.by_event import with_memory
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

if TYPE_CHECKING:
    import polars

Columns = dict[str, Sequence[Any] | NDArray[Any]]

ANNOTATION_KINDS = (SliceKind.RANGE, SliceKind.STEP, SliceKind.DEVICE_RANGE)

_Text = TypeVar("_Text")


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
    cpu_ns: Int64
    self_cpu_ns: Int64
    device_ns: Int64
    self_device_ns: Int64
    cpu_bytes: Int64 | None = None  # allocated less freed; None: memory was not recorded
    self_cpu_bytes: Int64 | None = None
    device_bytes: Int64 | None = None
    self_device_bytes: Int64 | None = None
    flops: Int64 | None = None  # None: not asked for
    input_shapes: Labels[str] | None = None  # None: not asked for
    overload_name: Labels[str] | None = None
    stack: Labels[tuple[str, ...]] | None = None  # the innermost frame first

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
        for name in _NUMBERS:
            column = getattr(self, name)
            if column is not None:
                columns[name] = np.asarray(column)
        if self.flops is not None:
            columns["flops_per_second"] = self.flops_per_second
        return columns

    def to_polars(self) -> polars.DataFrame:
        """Return the groups as a Polars DataFrame; times in ns, sizes in bytes."""
        return polars_frame(self.to_columns())


_TIMES = ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns")
_BYTES = ("cpu_bytes", "self_cpu_bytes", "device_bytes", "self_device_bytes")
SUMS = (*_TIMES, *_BYTES, "flops")  # the columns of Averages that add up

_NUMBERS = ("is_device", "is_annotation", "is_async", "count", *SUMS)


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

    def total(column: Int64 | None) -> Int64 | None:
        if column is None:
            return None
        if column.strides == (0,):
            return np.zeros(len(order), np.int64)
        return summed(group, column, groups)[order]

    def taken(column: Labels[_Text] | None) -> Labels[_Text] | None:
        return None if column is None else column.take(first)

    sums: dict[str, Any] = {name: total(getattr(events, name)) for name in SUMS}
    return Averages(
        key=events.key.take(first),
        count=count[order],
        first=first,
        is_device=events.is_device[first],
        is_annotation=events.is_annotation[first],
        is_async=events.is_async[first],
        is_top_level=events.is_top_level[first],
        **sums,
        input_shapes=taken(events.input_shapes),
        overload_name=taken(events.overload_name),
        stack=taken(events.stack),
    )


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
    )


def added(one: Averages, other: Averages) -> Averages:
    """Return rows with the sums of two tables; other columns are the first's."""

    def total(name: str) -> Any:
        mine, theirs = getattr(one, name), getattr(other, name)
        return mine if theirs is None else theirs if mine is None else mine + theirs

    return replace(one, **{name: total(name) for name in ("count", *SUMS)})


def polars_frame(columns: Columns) -> polars.DataFrame:
    """Return columns as a Polars DataFrame, stacks as lists of texts."""
    import polars as pl

    stacks = {"stack": pl.List(pl.String)} if "stack" in columns else None
    return pl.DataFrame(columns, schema_overrides=stacks)


def total_of(rows: Averages) -> Averages:
    """Return one group named ``Total`` that sums all others."""
    one = np.zeros(1, np.uint32)

    def total(column: Int64 | None) -> Int64 | None:
        return None if column is None else np.array([column.sum()], np.int64)

    no = np.zeros(1, np.bool_)
    sums: dict[str, Any] = {name: total(getattr(rows, name)) for name in SUMS}
    return Averages(
        key=Labels(one, ("Total",)),
        count=np.array([rows.count.sum()], np.int64),
        first=one,
        is_device=no,
        is_annotation=no,
        is_async=no,
        is_top_level=~no,
        **sums,
    )


def _flops(tree: CallTree) -> Int64:
    from stepscope.analysis.flops.count import flops_of

    flops = flops_of(tree.trace)
    if not flops.any():
        return np.broadcast_to(np.int64(0), len(tree))
    counted = np.flatnonzero(flops).astype(np.int32)
    event = tree.events_around(counted)  # a call may have counted that is folded into another
    total = np.zeros(len(tree), np.int64)
    np.add.at(total, event[event != NO_PARENT], flops[counted[event != NO_PARENT]])
    return total


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
