"""Fewer rows of what was captured, before it is built into a Trace."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import Captured, RawSlices
from stepscope.trace.model import Args, Int64, IntColumn, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]


def started_outside(captured: Captured, spans_ns: Sequence[tuple[int, int]]) -> Captured:
    """Drop what started within the spans; they are in order and do not overlap."""
    if not spans_ns:
        return captured
    return replace(
        captured,
        slices=_slices(captured.slices, _outside(captured.slices.start_ns, spans_ns)),
        memory=_memory(captured.memory, _outside(captured.memory.time_ns, spans_ns)),
    )


def _outside(times_ns: Int64, spans_ns: Sequence[tuple[int, int]]) -> Mask:
    begins, ends = np.array(spans_ns, np.int64).T
    last = np.searchsorted(begins, times_ns, side="right") - 1
    mask: Mask = (last < 0) | (times_ns >= ends[last])
    return mask


def _slices(raw: RawSlices, kept: Mask) -> RawSlices:
    def chosen(value: Any) -> Any:
        if isinstance(value, Args):
            return _args(value, kept)
        return None if value is None else value[kept]

    return RawSlices(**{each.name: chosen(getattr(raw, each.name)) for each in fields(RawSlices)})


def _args(args: Args, kept: Mask) -> Args:
    new_row = (np.cumsum(kept) - 1).astype(np.uint32)
    integers = {}
    for key, column in args.integers.items():
        stays = kept[column.rows]
        integers[key] = IntColumn(new_row[column.rows[stays]], column.values[stays])
    return Args(integers, args.rest[kept] if len(args.rest) else args.rest)


def _memory(memory: Memory, kept: Mask) -> Memory:
    return Memory(**{each.name: getattr(memory, each.name)[kept] for each in fields(Memory)})
