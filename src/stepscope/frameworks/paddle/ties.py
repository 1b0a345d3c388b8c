"""Attaches recorded inputs of Paddle's operator calls to the slices of operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.fragments import fragment_of
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from stepscope.frameworks.paddle.inputs import NotedInputs
    from stepscope.trace.model import Int64
    from stepscope.trace.schema import Captured, Slices

_EAGER = " dygraph"  # the suffix of an eager operator's slice: "matmul dygraph"
_MADE_OF = {"linear": "matmul"}  # functions that are no operators, and their first operator


def with_inputs(captured: Captured, noted: NotedInputs) -> Captured:
    """Attach the inputs of a call to the eager operator of the same name that started within it."""
    calls = np.frombuffer(noted.calls, np.int64).reshape(-1, 4)
    calls = calls[(calls[:, 3] >= 0) & (calls[:, 3] < len(noted.inputs))]
    if not len(calls):
        return captured
    raw, strings = captured.slices, captured.strings
    rest = np.zeros(len(raw.start_ns), np.uint32)
    if len(raw.args.rest):
        rest[:] = raw.args.rest
    is_eager = np.array([text.endswith(_EAGER) for text in strings], np.bool_)
    names = [_MADE_OF.get(operator, operator) + _EAGER for operator in noted.operators]
    ids = strings.ids_of(names)
    name_of_signature = np.array([ids.get(name, -1) for name in names], np.int64)
    tracks = {track.tid: number for number, track in enumerate(captured.tracks)}
    for thread in np.unique(calls[:, 0]).tolist():
        if str(thread) in tracks:
            rows = np.flatnonzero((raw.track == tracks[str(thread)]) & is_eager[raw.name])
            rows, signature = _first_within(raw, rows, calls[calls[:, 0] == thread, 1:])
            same = raw.name[rows] == name_of_signature[signature]
            rest[rows[same]] = signature[same] + len(strings)
    texts = Strings.of([*strings, *map(fragment_of, noted.inputs)])
    return replace(captured, slices=replace(raw, args=replace(raw.args, rest=rest)), strings=texts)


def _first_within(raw: Slices, rows: Int64, calls: Int64) -> tuple[Int64, Int64]:
    """Return the first row that starts within each call, and the signature of that call."""
    if not len(rows):
        return rows, rows
    rows = rows[np.argsort(raw.start_ns[rows], kind="stable")]
    starts = raw.start_ns[rows]
    at = np.searchsorted(starts, calls[:, 0])
    is_found = at < len(rows)
    is_found[is_found] = starts[at[is_found]] <= calls[is_found, 1]
    return rows[at[is_found]], calls[is_found, 2]
