"""What the lines of the user's own files cost, by the samples of their threads' stacks.

A sample's time is the self time of the innermost line of the user's on its stack: what NumPy or
torch do for ``y = f(x)`` is that line's. It is part of the total of every line of the user's on the
stack, once. Threads that only wait are left out: they cost nobody anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import distinct_pairs, summed
from stepscope.analysis.calls.waiting import (
    Doing,
    doing_of_samples,
    operator_of_slices,
    waiting_tracks,
)
from stepscope.analysis.code.own_lines import (
    NO_LINE,
    IsOwn,
    Place,
    innermost_lines,
    is_own_file,
    own_lines,
    totals_by_line,
)
from stepscope.analysis.code.stacks import KnownStacks, stacks_of_samples
from stepscope.trace.model import NO_SLICE, Int64, Trace, UInt8, UInt32


@dataclass(frozen=True, slots=True)
class LineParts:
    """What ran on each line itself: one row per line and name, ordered by line, the longest first.

    A name is that of the operator, else of the innermost frame: a function of a library, a call of
    native code, or the line's own function.
    """

    line: Int64  # row of SampledLines
    name: UInt32  # string id
    doing: UInt8  # Doing
    self_ns: Int64


@dataclass(frozen=True, slots=True)
class SampledLines:
    """One row per line of the user's on a sampled stack, ordered by file and line."""

    place: tuple[Place, ...]
    self_ns: Int64  # of the samples whose innermost line of the user's it is
    total_ns: Int64  # of samples with the line anywhere on their stack
    self_by: Mapping[Doing, Int64]  # the self time by what the thread was doing; adds up to it
    parts: LineParts
    of_sample: Int64  # for each sample the row of its innermost line in this table, NO_LINE if none
    elsewhere_ns: int  # the time of samples that have no line of the user's

    def __len__(self) -> int:
        return len(self.place)


def sampled_lines(
    trace: Trace, is_own: IsOwn = is_own_file, within: Intervals | None = None
) -> SampledLines | None:
    """Return what the user's lines cost; None if no sample has one.

    ``within`` counts only the time in some intervals, such as the steady steps: rows stay the same.
    """
    if not len(trace.samples):
        return None
    stacks = stacks_of_samples(trace)
    places, line_of_stack = own_lines(stacks.table, trace.strings, is_own)
    if not places:
        return None
    weight_ns = sample_weights(trace, within)
    of_sample = innermost_lines(stacks.table, line_of_stack)[stacks.rows]
    doing = doing_of_samples(trace)
    self_by = {
        what: summed(of_sample, np.where(doing == what, weight_ns, 0), len(places))
        for what in Doing
    }
    return SampledLines(
        place=tuple(places),
        self_ns=np.sum(list(self_by.values()), axis=0),
        total_ns=totals_by_line(stacks, line_of_stack, len(places), weight_ns),
        self_by=self_by,
        parts=_parts(trace, stacks, of_sample, doing, weight_ns),
        of_sample=of_sample,
        elsewhere_ns=int(weight_ns[of_sample == NO_LINE].sum()),
    )


def _parts(
    trace: Trace, stacks: KnownStacks, of_sample: Int64, doing: UInt8, weight_ns: Int64
) -> LineParts:
    name = stacks.table.frame[stacks.rows]
    operator = operator_of_slices(trace)[trace.samples.slice]  # NO_SLICE is the last
    in_operator = np.flatnonzero((doing == Doing.OPERATOR) & (operator != NO_SLICE))
    name[in_operator] = trace.slices.name[operator[in_operator]]
    rows = np.flatnonzero((of_sample != NO_LINE) & (weight_ns > 0))
    what = name[rows].astype(np.int64) * len(Doing) + doing[rows]
    (line, kind), which = distinct_pairs(of_sample[rows], what)
    self_ns = summed(which, weight_ns[rows], len(line))
    order = np.lexsort((-self_ns, line))
    kind = kind[order]
    return LineParts(
        line=line[order],
        name=(kind // len(Doing)).astype(np.uint32),
        doing=(kind % len(Doing)).astype(np.uint8),
        self_ns=self_ns[order],
    )


@shared
def sample_weights(trace: Trace, within: Intervals | None = None) -> Int64:
    """Return the time that each sample stands for, 0 for threads that only wait.

    Of a sample that is in some intervals in part, ``within`` counts that part.
    """
    samples = trace.samples
    weight_ns = samples.duration_ns
    if within is not None:
        weight_ns = within.covered(samples.time_ns, samples.end_ns)
    return np.where(waiting_tracks(trace)[samples.track], 0, weight_ns)
