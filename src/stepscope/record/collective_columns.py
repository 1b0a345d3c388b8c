"""Collectives in the columns of a recording: finds them, and adds what is known of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.record.collectives import Collective
from stepscope.trace.fragments import fragment_of
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, IntColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.trace.schema import Captured


def calls_named(captured: Captured, name_of: Callable[[str], str | None]) -> list[Collective]:
    """Return the slices that are calls of collectives, by time.

    ``name_of`` returns the collective that a slice's name stands for, None for all others.
    """
    slices = captured.slices
    names = {
        i: name
        for i, text in enumerate(captured.strings.decode_all())
        if (name := name_of(text)) is not None
    }
    return [
        Collective(
            names[int(slices.name[row])],
            int(slices.start_ns[row]),
            int(slices.start_ns[row] + slices.duration_ns[row]),
            captured.tracks[int(slices.track[row])].tid,
            [row],
        )
        for row in rows_named(captured, names)
    ]


def rows_named(captured: Captured, names: Iterable[int]) -> list[int]:
    """Return the slices with one of these names, by time."""
    slices = captured.slices
    rows = np.flatnonzero(np.isin(slices.name, np.array(sorted(names), np.uint32)))
    return [int(row) for row in rows[np.argsort(slices.start_ns[rows], kind="stable")]]


def annotated(captured: Captured, pairs_of_row: Mapping[int, Mapping[str, Any]]) -> Captured:
    """Return a recording whose slices have further arguments."""
    if not pairs_of_row:
        return captured
    slices, count = captured.slices, len(captured.slices)
    texts = captured.strings.decode_all().copy()
    id_of_text: dict[str, int] = {}
    rest = slices.args.rest.copy() if len(slices.args.rest) else np.zeros(count, np.uint32)
    numbers: dict[str, list[tuple[int, int]]] = {}
    for row, pairs in sorted(pairs_of_row.items()):
        words = {}
        for key, value in pairs.items():
            if type(value) is int:
                numbers.setdefault(key, []).append((row, value))
            else:
                words[key] = value
        before = texts[int(rest[row])]
        fragment = fragment_of(words)
        text = f"{before}, {fragment}" if before and fragment else before or fragment
        if text not in id_of_text:
            id_of_text[text] = len(texts)
            texts.append(text)
        rest[row] = id_of_text[text]
    integers = dict(slices.args.integers)
    for key, values in numbers.items():
        integers[key] = _with(integers.get(key), values)
    args = Args(integers, rest)
    return replace(captured, slices=replace(slices, args=args), strings=Strings.of(texts))


def _with(before: IntColumn | None, pairs: Sequence[tuple[int, int]]) -> IntColumn:
    values = dict(zip(before.rows.tolist(), before.values.tolist(), strict=True)) if before else {}
    values.update(pairs)
    rows = np.array(sorted(values), np.uint32)
    return IntColumn(rows, np.array([values[int(row)] for row in rows], np.int64))
