"""The lines of Python that time is spent in where no operator runs, and all lines, by samples.

What no operator covers is known exactly, and what runs then by the samples that were taken in it:
their shares are scaled to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.compare.moments import Moments, Windows
from stepscope.analysis.compare.sorting import Sorting
from stepscope.analysis.device.work import device_work
from stepscope.analysis.host.sampled_stacks import SampledStack, sampled_stacks
from stepscope.analysis.intervals import union
from stepscope.trace.model import NO_STACK, Int64, Trace

FEWEST_SAMPLES = 20  # fewer samples outside operators say too little

OTHER_LINES = "libraries, not called by a line of the program"
DEVICE_BUSY = "while devices work"


@dataclass(frozen=True, slots=True)
class GapLines:
    """The time of lines; that of groups that are gaps is split by it."""

    shares: Mapping[int, Mapping[str, int]]  # by group: the sampled ns of each line or function
    samples: Mapping[str, int]  # how many were taken in each where no operator runs
    all_lines: Mapping[str, tuple[int, int]]

    def split(self, group: int, ns: int) -> dict[str, int] | None:
        """Split the exact time of a group by the samples in it; None where there are too few."""
        shares = self.shares.get(group)
        return scaled(shares, ns) if shares else None


def gap_lines(trace: Trace, steps: Windows, held: Moments, by: Sorting) -> GapLines:
    """Find the lines that run in the steps.

    All steady steps tell the shares, so that there are more samples; ``held`` are the moments of
    those whose time is split.
    """
    samples = trace.samples
    if not len(samples) or not len(steps):
        return GapLines({}, {}, {})
    rows, weight = _samples_in(trace, steps)
    stacks, stack = sampled_stacks(trace), samples.stack[rows].astype(np.int64)
    texts = line_texts(stacks, stack, _work_of)
    group = by.group_at(samples.slice[rows].astype(np.int64))
    in_gap = by.is_gap[group]
    shares: dict[int, dict[str, int]] = {}
    if int(in_gap.sum()) >= FEWEST_SAMPLES:
        for each in np.unique(group[in_gap]).tolist():
            shares[each] = _sums(texts, weight, group == each)
    total = int(held.ns.sum())
    everything = _sums(line_texts(stacks, stack), weight, np.ones(len(rows), np.bool_))
    taken = _sums(texts, np.ones(len(rows), np.int64), in_gap)
    if not everything:
        return GapLines(shares, taken, {})
    rest = 0
    if held.on_device:
        is_work = np.zeros(len(trace.slices) + 1, np.bool_)
        is_work[device_work(trace).rows] = True
        rest = int(held.ns[is_work[held.owner]].sum())
    lines = scaled(everything, total - rest)
    told = {line: (ns, 0) for line, ns in lines.items()}
    return GapLines(shares, taken, {**told, DEVICE_BUSY: (rest, 0)} if rest else told)


def scaled(shares: Mapping[str, int], ns: int) -> dict[str, int]:
    """Split some time by shares, into whole ns that add up to it."""
    total = sum(shares.values())
    parts = {what: ns * share // total for what, share in shares.items()}
    largest = max(shares, key=lambda what: shares[what])
    parts[largest] += ns - sum(parts.values())
    return parts


def _line_of(stack: SampledStack) -> str:
    place = stack.line
    if place is None:
        return OTHER_LINES
    return f"{place.file}:{place.line} {place.function}"


def _work_of(stack: SampledStack) -> str:
    """Return the line, but of what a function does itself the function.

    The time of a loop is spread over its lines, each of which may look smaller than the noise of
    something else; a line that calls something is a place of its own.
    """
    place = stack.line
    if place is None or stack.beyond or stack.callee or place.function == "<module>":
        return _line_of(stack)
    return f"{place.file} {place.function}"


def line_texts(
    stacks: Mapping[int, SampledStack],
    rows: Int64,
    told: Callable[[SampledStack], str] = _line_of,
) -> tuple[list[str], Int64]:
    """Return the distinct lines of some stacks, and which of them each stack's is."""
    texts: dict[str, int] = {}
    found, which = np.unique(rows, return_inverse=True)
    code = [texts.setdefault(told(stacks[int(row)]), len(texts)) for row in found]
    return list(texts), np.array(code, np.int64)[which.reshape(-1)]


def _samples_in(trace: Trace, steps: Windows) -> tuple[Int64, Int64]:
    """Return the samples of the steps' threads that were taken within them, and their weights.

    With device work, those while devices are idle.
    """
    samples = trace.samples
    rows = np.flatnonzero(np.isin(samples.track, steps.track) & (samples.stack != NO_STACK))
    time = union(steps.start_ns, steps.end_ns)
    rows = rows[time.contain(samples.time_ns[rows])]
    work = device_work(trace)
    if len(work):
        busy = work.busy(np.ones(len(work), np.bool_))
        rows = rows[~busy.contain(samples.time_ns[rows])]
    return rows, np.maximum(samples.duration_ns[rows], 1)


def _sums(texts: tuple[list[str], Int64], weight: Int64, which: np.ndarray) -> dict[str, int]:
    words, code = texts
    sums = np.bincount(code[which], weight[which], len(words))
    return {words[i]: int(sums[i]) for i in np.flatnonzero(sums).tolist()}
