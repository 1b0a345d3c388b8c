"""What a program did besides its steps: compiling and importing, folded out of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import has_text, is_named
from stepscope.trace.model import NO_PARENT, PRODUCER, Int64, SliceKind, Trace
from stepscope.trace.names import COMPILE_CATEGORY

_DYNAMO_TIMED = " (dynamo_timed)"  # so torch marks what its compiler does, in any recording
_IMPORT_PREFIX = "import "


@dataclass(frozen=True, slots=True)
class Phase:
    """Work besides the steps, and how long it took in total."""

    name: str
    count: int
    total_ns: int  # no moment counted twice


def phase_table(trace: Trace) -> list[Phase]:
    """Return the phases in the trace, the longest first."""
    phases = [
        Phase(name, len(rows), _time_of(trace, rows).total_ns) for name, rows in _phase_rows(trace)
    ]
    return sorted(phases, key=lambda phase: -phase.total_ns)


def without_compilation(trace: Trace, start_ns: Int64, duration_ns: Int64) -> Int64:
    """Return the durations of some intervals without the compilation in each."""
    compiling = _time_of(trace, compilations(trace))
    return duration_ns - compiling.covered(start_ns, start_ns + duration_ns)


def _phase_rows(trace: Trace) -> Iterator[tuple[str, Int64]]:
    for name, rows in (("compile", compilations(trace)), ("import", import_rows(trace))):
        if len(rows):
            yield name, rows


def compilations(trace: Trace) -> Int64:
    """Return the compilations; graph breaks have their category, but no duration.

    Those of other profilers are known by torch's own marks, where ours are not there.
    """
    own = compile_marks(trace)
    return own[trace.slices.duration_ns[own] > 0] if len(own) else _marked_by_torch(trace)


@shared
def compile_marks(trace: Trace) -> Int64:
    """Return our own marks of compilations and graph breaks."""
    category = trace.slices.category
    return np.flatnonzero(has_text(category, trace.strings, COMPILE_CATEGORY.__eq__))


def _marked_by_torch(trace: Trace) -> Int64:
    """Return the outermost marks of torch's compiler."""
    slices = trace.slices
    is_mark = is_named(trace, lambda name: name.endswith(_DYNAMO_TIMED)) & (slices.duration_ns > 0)
    rows = np.flatnonzero(is_mark)
    inner = np.zeros(len(rows), np.bool_)
    above = slices.parent[rows].astype(np.int64)
    while len(climbing := np.flatnonzero(~inner & (above != NO_PARENT))):
        inner[climbing] = is_mark[above[climbing]]
        above[climbing] = slices.parent[above[climbing]]
    return rows[~inner]


def import_rows(trace: Trace) -> Int64:
    """Return our own marks of imports during the recording."""
    if trace.info.producer != PRODUCER:
        return np.zeros(0, np.int64)
    is_mark = is_named(trace, lambda name: name.startswith(_IMPORT_PREFIX))
    return np.flatnonzero(is_mark & (trace.slices.kind == SliceKind.RANGE))


def _time_of(trace: Trace, rows: Int64) -> Intervals:
    return union(trace.slices.start_ns[rows], trace.slices.ends_of(rows))
