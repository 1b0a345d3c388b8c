"""Events summed by name: the numbers under ``key_averages()`` and every summary table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from stepscope.analysis.launches import launches
from stepscope.analysis.tree import distinct_ids
from stepscope.trace.model import NO_PARENT, SliceFlags, SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars
    from numpy.typing import NDArray

    from stepscope.analysis.launches import Launches
    from stepscope.analysis.tree import CallTree
    from stepscope.trace.model import Int64, UInt32
    from stepscope.trace.strings import Strings

    Bool = NDArray[np.bool_]

_STEP_PREFIX = "ProfilerStep#"
_ANNOTATION_KINDS = (SliceKind.RANGE, SliceKind.STEP, SliceKind.DEVICE_RANGE)


@dataclass(frozen=True, slots=True)
class Labels(Sequence[str]):
    """A column of texts: a code a row, and the distinct texts that the codes stand for."""

    codes: UInt32
    texts: Sequence[str]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Labels: ...
    def __getitem__(self, index: int | slice) -> str | Labels:
        """Return the text of one row, or the labels of a run of rows."""
        if isinstance(index, slice):
            return Labels(self.codes[index], self.texts)
        return self.texts[int(self.codes[index])]

    def take(self, rows: NDArray[np.integer]) -> Labels:
        """Return the labels of some rows."""
        return Labels(self.codes[rows], self.texts)


@dataclass(frozen=True, slots=True)
class Averages:
    """One row a group of events, in the order in which the groups were first seen.

    A list of single events has the same shape: every group is one event.
    """

    key: Labels
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
    input_shapes: Labels | None = None  # None: not asked for
    overload_name: Labels | None = None

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.key)

    @property
    def total_self_cpu_ns(self) -> int:
        """Return the time on the host, no moment of one thread counted twice."""
        return int(self.self_cpu_ns.sum())

    @property
    def total_self_device_ns(self) -> int:
        """Return the time of all device work; ranges on the device hold work, they are none."""
        return int(self.self_device_ns[self.is_device & ~self.is_annotation].sum())

    def to_polars(self) -> polars.DataFrame:
        """Return the groups as a Polars DataFrame; all times in ns."""
        import polars as pl

        texts = {"key": self.key, "input_shapes": self.input_shapes, "overload": self.overload_name}
        numbers = ("is_device", "is_annotation", "is_async", "count")
        times = ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns")
        columns = {name: list(column) for name, column in texts.items() if column is not None}
        return pl.DataFrame(
            {**columns, **{name: np.asarray(getattr(self, name)) for name in (*numbers, *times)}}
        )


def averages(tree: CallTree, *, by_shapes: bool = False, by_overload: bool = False) -> Averages:
    """Sum events with one name, on one kind of device, that are all user ranges or all not."""
    return grouped(single_events(tree, by_shapes=by_shapes, by_overload=by_overload))


def grouped(each: Averages) -> Averages:
    """Sum single events into groups; by shapes and overloads too where they are given."""
    group = each.key.codes.astype(np.intp)
    group *= 4
    group += each.is_annotation.astype(np.uint8) + 2 * each.is_device.astype(np.uint8)
    groups = 4 * len(each.key.texts)
    for extra in (each.input_shapes, each.overload_name):
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
        # float64 holds whole ns exactly up to 104 days
        return np.bincount(group, column, minlength=groups)[order].astype(np.int64)

    return Averages(
        key=each.key.take(first),
        count=count[order],
        first=first,
        is_device=each.is_device[first],
        is_annotation=each.is_annotation[first],
        is_async=each.is_async[first],
        is_top_level=each.is_top_level[first],
        cpu_ns=total(each.cpu_ns),
        self_cpu_ns=total(each.self_cpu_ns),
        device_ns=total(each.device_ns),
        self_device_ns=total(each.self_device_ns),
        input_shapes=each.input_shapes and each.input_shapes.take(first),
        overload_name=each.overload_name and each.overload_name.take(first),
    )


def single_events(
    tree: CallTree, *, by_shapes: bool = False, by_overload: bool = False
) -> Averages:
    """Return every event as a group of its own."""
    trace, slices, events = tree.trace, tree.trace.slices, len(tree)
    none: Int64 = np.broadcast_to(np.int64(0), events)
    flags = tree.of(slices.flags)
    is_annotation = np.zeros(256, np.bool_)
    is_annotation[list(_ANNOTATION_KINDS)] = True
    device: Launches | None = launches(tree)
    return Averages(
        key=labels(tree, slices.name, trace.strings, shown_name),
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
        input_shapes=shape_labels(tree) if by_shapes else None,
        overload_name=labels(tree, slices.overload, trace.strings, str) if by_overload else None,
    )


def total_of(rows: Averages) -> Averages:
    """Return one group named ``Total`` that holds every other."""
    one = np.zeros(1, np.uint32)

    def total(column: Int64) -> Int64:
        return np.array([column.sum()], np.int64)

    no = np.zeros(1, np.bool_)
    return Averages(
        key=Labels(one, ("Total",)),
        count=total(rows.count),
        first=one,
        is_device=no,
        is_annotation=no,
        is_async=no,
        is_top_level=~no,
        cpu_ns=total(rows.cpu_ns),
        self_cpu_ns=total(rows.self_cpu_ns),
        device_ns=total(rows.device_ns),
        self_device_ns=total(rows.self_device_ns),
    )


def shown_name(name: str) -> str:
    """Return the name under which an event is grouped: all steps are one."""
    return "ProfilerStep*" if name.startswith(_STEP_PREFIX) else name


def labels(tree: CallTree, ids: UInt32, strings: Strings, show: Callable[[str], str]) -> Labels:
    """Return a column of string ids as labels; ids whose texts are shown alike share a code."""
    column = tree.of(ids)
    present = distinct_ids(column)
    code_of_text: dict[str, int] = {}
    codes = [code_of_text.setdefault(show(strings[int(i)]), len(code_of_text)) for i in present]
    table = np.zeros(int(present[-1]) + 1 if len(present) else 0, np.uint32)
    table[present] = codes
    return Labels(table.take(column), tuple(code_of_text))


def shape_labels(tree: CallTree) -> Labels:
    """Return the input shapes of every event, as Python writes them; ``[]`` without."""
    rest = tree.trace.slices.args.rest
    if not len(rest):
        return Labels(np.zeros(len(tree), np.uint32), ("[]",))
    return labels(tree, rest, tree.trace.strings, lambda text: str(input_dims(text)))


def input_dims(rest: str) -> list[object]:
    """Return the ``Input Dims`` of a JSON fragment, empty when it has none."""
    try:
        dims = json.loads("{" + rest + "}", strict=False).get("Input Dims", [])
    except ValueError:  # a foreign file's arguments need not be well-formed
        return []
    return dims if isinstance(dims, list) else []


def _on_host(tree: CallTree, ns: Int64) -> Int64:
    return ns if tree.is_device is None else np.where(tree.is_device, 0, ns)


def _refined(group: NDArray[np.intp], by: Labels) -> tuple[NDArray[np.intp], int]:
    """Split groups by one more column, and number them densely again."""
    distinct, refined = np.unique(group * len(by.texts) + by.codes, return_inverse=True)
    return refined, len(distinct)


def _first_seen(group: NDArray[np.intp], groups: int) -> UInt32:
    first = np.full(groups, len(group), np.uint32)
    np.minimum.at(first, group, np.arange(len(group), dtype=np.uint32))
    return first
