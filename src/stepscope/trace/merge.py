"""Several sources' columns as one: their strings and tracks brought together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stepscope.trace.build import RawSlices
from stepscope.trace.model import NO_SEQUENCE, NO_THREAD, Args, IntColumn, Track
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.trace.build import Captured

_Scalar = TypeVar("_Scalar", bound=np.generic)


def merge_parts(parts: Sequence[Captured]) -> tuple[RawSlices, tuple[Track, ...], Strings]:
    """Join the parts; a thread that two of them saw is one track."""
    parts = [part for part in parts if len(part.slices.start_ns) or part is parts[0]]
    if len(parts) == 1:
        return parts[0].slices, parts[0].tracks, parts[0].strings
    text_ids: dict[str, int] = {"": 0}
    tracks: dict[tuple[str, str], Track] = {}
    merged: list[RawSlices] = []
    for part in parts:
        text = np.array([text_ids.setdefault(t, len(text_ids)) for t in part.strings], np.uint32)
        for track in part.tracks:
            known = tracks.setdefault((track.pid, track.tid), track)
            if known.logical_id == NO_THREAD:
                tracks[track.pid, track.tid] = replace(known, logical_id=track.logical_id)
        places = {key: i for i, key in enumerate(tracks)}
        place = np.array([places[track.pid, track.tid] for track in part.tracks], np.uint32)
        merged.append(_renumbered(part.slices, text, place))
    return _joined(merged), tuple(tracks.values()), Strings.of(text_ids)


def _renumbered(raw: RawSlices, text: NDArray[np.uint32], place: NDArray[np.uint32]) -> RawSlices:
    return replace(
        raw,
        category=text[raw.category],
        name=text[raw.name],
        overload=None if raw.overload is None else text[raw.overload],
        track=place[raw.track] if len(raw.track) else raw.track,
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
