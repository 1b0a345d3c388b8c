"""Several sources' columns as one: their strings and tracks brought together."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stepscope.trace.build import Captured, RawSlices
from stepscope.trace.model import (
    NO_CORRELATION,
    NO_SEQUENCE,
    NO_STACK,
    NO_THREAD,
    Args,
    IntColumn,
    Memory,
    Owners,
    Track,
)
from stepscope.trace.stack_tree import StackTree
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Table = TypeVar("_Table", Memory, Owners)


def merge_parts(parts: Sequence[Captured]) -> Captured:
    """Join the parts; a thread that two of them saw is one track."""
    parts = [part for part in parts if _has_rows(part) or part is parts[0]]
    if len(parts) == 1:
        return parts[0]
    text_ids: dict[str, int] = {"": 0}
    tracks: dict[tuple[str, str], Track] = {}
    stacks = StackTree()
    slices: list[RawSlices] = []
    memory: list[Memory] = []
    owners: list[Owners] = []
    for part in parts:
        text = np.array([text_ids.setdefault(t, len(text_ids)) for t in part.strings], np.uint32)
        for track in part.tracks:
            known = tracks.setdefault((track.pid, track.tid), track)
            if known.logical_id == NO_THREAD:
                tracks[track.pid, track.tid] = replace(known, logical_id=track.logical_id)
        places = {key: i for i, key in enumerate(tracks)}
        place = np.array([places[track.pid, track.tid] for track in part.tracks], np.uint32)
        stack = stacks.add(part.stacks, text)
        slices.append(_renumbered(part.slices, text, place, stack))
        memory.append(_moved(part.memory, text, place))
        owners.append(replace(part.owners, device=text[part.owners.device]))
    return Captured(
        _joined(slices),
        tuple(tracks.values()),
        Strings.of(text_ids),
        stacks.table(),
        _concatenated(memory),
        _concatenated(owners),
    )


def _has_rows(part: Captured) -> bool:
    return bool(len(part.slices.start_ns) or len(part.memory) or len(part.owners))


def _moved(memory: Memory, text: NDArray[np.uint32], place: NDArray[np.uint32]) -> Memory:
    if not len(memory):
        return memory
    return replace(memory, device=text[memory.device], track=place[memory.track])


def _concatenated(tables: Sequence[_Table]) -> _Table:
    columns = [field.name for field in fields(tables[0])]
    return type(tables[0])(
        **{name: np.concatenate([getattr(t, name) for t in tables]) for name in columns}
    )


def _renumbered(
    raw: RawSlices,
    text: NDArray[np.uint32],
    place: NDArray[np.uint32],
    stack: NDArray[np.uint32],
) -> RawSlices:
    return replace(
        raw,
        category=text[raw.category],
        name=text[raw.name],
        overload=None if raw.overload is None else text[raw.overload],
        track=place[raw.track] if len(raw.track) else raw.track,
        stack=None if raw.stack is None else stack[raw.stack],
        args=replace(raw.args, rest=text[raw.args.rest]) if len(raw.args.rest) else raw.args,
    )


def _joined(parts: Sequence[RawSlices]) -> RawSlices:
    def optional(
        columns: list[NDArray[_Scalar] | None], dtype: type[_Scalar], default: int
    ) -> NDArray[_Scalar] | None:
        if all(column is None for column in columns):
            return None
        return np.concatenate(
            [
                np.full(len(part.start_ns), default, dtype) if column is None else column
                for part, column in zip(parts, columns, strict=True)
            ]
        )

    return RawSlices(
        category=np.concatenate([p.category for p in parts]),
        name=np.concatenate([p.name for p in parts]),
        start_ns=np.concatenate([p.start_ns for p in parts]),
        duration_ns=np.concatenate([p.duration_ns for p in parts]),
        track=np.concatenate([p.track for p in parts]),
        overload=optional([p.overload for p in parts], np.uint32, 0),
        flags=optional([p.flags for p in parts], np.uint8, 0),
        context=optional([p.context for p in parts], np.uint32, 0),
        sequence=optional([p.sequence for p in parts], np.int64, NO_SEQUENCE),
        forward_thread=optional([p.forward_thread for p in parts], np.int64, NO_THREAD),
        correlation=optional([p.correlation for p in parts], np.int64, NO_CORRELATION),
        stack=optional([p.stack for p in parts], np.uint32, NO_STACK),
        args=_joined_args(parts),
    )


def _joined_args(parts: Sequence[RawSlices]) -> Args:
    rest = np.concatenate(
        [p.args.rest if len(p.args.rest) else np.zeros(len(p.start_ns), np.uint32) for p in parts]
    )
    integers: dict[str, list[IntColumn]] = {}
    offset = 0
    for part in parts:
        for key, column in part.args.integers.items():
            moved = IntColumn(column.rows + np.uint32(offset), column.values)
            integers.setdefault(key, []).append(moved)
        offset += len(part.start_ns)
    joined = {
        key: IntColumn(
            np.concatenate([c.rows for c in columns]), np.concatenate([c.values for c in columns])
        )
        for key, columns in integers.items()
    }
    return Args(joined, rest if rest.any() else np.zeros(0, np.uint32))
