"""What a program did besides its steps: compiling and importing, folded out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.tree import ids_where
from stepscope.trace.model import PRODUCER, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.trace.model import Int64, Trace

COMPILE_CATEGORY = "compile"
_IMPORT_PREFIX = "import "


@dataclass(frozen=True, slots=True)
class Phase:
    """Something that is not the program's own work, and how long it took in all."""

    name: str
    count: int
    total_ns: int  # no moment counted twice


def phase_table(trace: Trace) -> list[Phase]:
    """Return the phases that the trace holds, the longest first."""
    found = [
        Phase(name, len(rows), _length(*_union(trace, rows))) for name, rows in _phase_rows(trace)
    ]
    return sorted(found, key=lambda phase: -phase.total_ns)


def without_compilation(trace: Trace, start_ns: Int64, duration_ns: Int64) -> Int64:
    """Return the durations of some intervals, such as steps, less the compiling within each."""
    starts, ends = _union(trace, _compilations(trace))
    if not len(starts):
        return duration_ns
    return duration_ns - _overlap(starts, ends, start_ns, start_ns + duration_ns)


def _phase_rows(trace: Trace) -> Iterator[tuple[str, Int64]]:
    for name, rows in (("compile", _compilations(trace)), ("import", _imports(trace))):
        if len(rows):
            yield name, rows


def _compilations(trace: Trace) -> Int64:
    """Return the compilations; a graph break is of their category and has no duration."""
    slices = trace.slices
    categories = ids_where(slices.category, trace.strings, lambda word: word == COMPILE_CATEGORY)
    return np.flatnonzero(np.isin(slices.category, categories) & (slices.duration_ns > 0))


def _imports(trace: Trace) -> Int64:
    """Return our own marks of what the program imported while it was recorded."""
    if trace.info.producer != PRODUCER:
        return np.zeros(0, np.int64)
    slices = trace.slices
    names = ids_where(slices.name, trace.strings, lambda name: name.startswith(_IMPORT_PREFIX))
    is_mark = np.isin(slices.name, names) & (slices.kind == SliceKind.RANGE)
    return np.flatnonzero(is_mark)


def _union(trace: Trace, rows: Int64) -> tuple[Int64, Int64]:
    """Return the time that any of the slices covers, as intervals apart from each other."""
    starts, ends = trace.slices.start_ns[rows], trace.slices.end_ns[rows]
    if not len(starts):
        return starts, ends
    reached = np.maximum.accumulate(ends)
    begins: NDArray[np.bool_] = np.concatenate([[True], starts[1:] > reached[:-1]])
    last = np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(starts) - 1]])
    return starts[begins], reached[last]


def _length(starts: Int64, ends: Int64) -> int:
    return int((ends - starts).sum())


def _overlap(starts: Int64, ends: Int64, from_ns: Int64, to_ns: Int64) -> Int64:
    """Return how much of each interval from..to the disjoint intervals starts..ends cover."""
    summed = np.concatenate([[0], np.cumsum(ends - starts)])

    def covered_before(time_ns: Int64) -> Int64:
        at = np.searchsorted(starts, time_ns, side="right")
        inside = np.minimum(time_ns, ends[at - 1]) - starts[at - 1]
        covered: Int64 = np.where(at > 0, summed[at - 1] + inside, 0)
        return covered

    return covered_before(to_ns) - covered_before(from_ns)
