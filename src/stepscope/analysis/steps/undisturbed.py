"""A recording as it would be, had other programs left the machine to this one.

On a machine whose cores others use as well, threads wait for a core, and operators that run on
several threads wait for the one that has none: they take many times as long, and a line of Python
that costs half of a step on a free machine seems to cost a twentieth. What others take is told and
taken out, so that the answer is about the program.

The steps' thread tells what it lost: the kernel says when it was ready to run and had no core. What
an operator lost is its time beyond what the same call usually takes in a step. Both are cut out of
the time of the whole trace, so that everything derived from it agrees.

Where others are always busy, hardly any call is left alone. But the kernel says for how long the
threads that operators run on had no core, and so how much of the operators' time is the program's:
calls are brought nearer to the quickest one of their name until their sum is no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals, innermost, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import summed
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import (
    NO_PARENT,
    NO_SLICE,
    NO_STACK,
    RUNNING_STATES,
    Bool,
    Float64,
    Int64,
    Samples,
    SliceKind,
    Slices,
    ThreadState,
    Trace,
)
from stepscope.trace.table import Role

MIN_STEPS = 8  # fewer steps do not show how long a call usually takes
MIN_WAITING = 0.05  # a thread waits for a core for this share of the steps only where others use it
OWN_CORES = 0.75  # a program that keeps more of all cores busy is in its own way
USUAL = 0.1  # at least this share of the same call in all steps was left alone
# A call that takes this many times as long in each next third of the steps has more to do.
GROWTH = 1.2
MIN_CALLS = 5  # fewer of the same call do not show which were left alone
TRIES = 21  # how finely calls are brought nearer to the quickest of their name

_VALUE_BITS = 36


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A trace without the delays that other programs caused."""

    trace: Trace
    lost_ns: float = 0.0  # in an average steady step
    _clock: _Clock | None = None

    def recorded_ns(self, time_ns: int) -> int:
        """Return a moment of this trace by the recording's clock."""
        return time_ns if self._clock is None else self._clock.recorded_ns(time_ns)


@dataclass(frozen=True, slots=True)
class _Clock:
    """A clock that runs slower, or stops, while other programs hold up this one.

    Between the moments of ``at_ns``, counted from ``origin_ns``, it runs evenly.
    """

    origin_ns: int
    at_ns: Float64
    shown_ns: Float64

    def shown(self, time_ns: Int64) -> Int64:
        """Convert moments of the recording to this clock."""
        since = (time_ns - self.origin_ns).astype(np.float64)
        # No time is removed before the first moment and after the last.
        cut = np.interp(since, self.at_ns, self.at_ns - self.shown_ns)
        shown: Int64 = np.rint(since - cut).astype(np.int64) + self.origin_ns
        return shown

    def recorded_ns(self, shown_ns: int) -> int:
        """Convert a time of this clock to the recording's."""
        since = float(shown_ns - self.origin_ns)
        if since >= self.shown_ns[-1]:
            return round(since + float(self.at_ns[-1] - self.shown_ns[-1])) + self.origin_ns
        if since <= self.shown_ns[0]:
            return shown_ns
        return round(float(np.interp(since, self.shown_ns, self.at_ns))) + self.origin_ns


@shared
def undisturbed(trace: Trace) -> Undisturbed:
    """Return a trace without the delays of other programs; unchanged if they were small."""
    steps, steady = step_table(trace), steady_steps(trace)
    tracks = np.unique(steps.track[steady])
    can_tell = len(tracks) == 1 and steady.sum() >= MIN_STEPS and steps.by is not StepsBy.REQUEST
    if not can_tell or not len(trace.samples) or len(device_work(trace)):
        return Undisturbed(trace)
    time = union(steps.start_ns[steady], steps.end_ns[steady])
    waits = _waits_for_core(trace, int(tracks[0])).shared_with(time)
    if waits.total_ns < MIN_WAITING * time.total_ns or _is_in_its_own_way(trace, time):
        return Undisturbed(trace)
    clock = _clock(trace, int(tracks[0]), waits)
    if not len(clock.at_ns):
        return Undisturbed(trace)  # it waited in calls that are too few to judge
    lost_ns = time.total_ns - int((clock.shown(time.end_ns) - clock.shown(time.start_ns)).sum())
    return Undisturbed(_by_clock(trace, clock), lost_ns / int(steady.sum()), clock)


def _waits_for_core(trace: Trace, track: int) -> Intervals:
    samples = trace.samples
    rows = (samples.track == track) & (samples.state == ThreadState.READY)
    return union(samples.time_ns[rows], samples.end_ns[rows])


def _is_in_its_own_way(trace: Trace, time: Intervals) -> bool:
    """Tell whether the program or its children may keep the cores busy."""
    parallelism, samples = trace.info.parallelism, trace.samples
    runs = np.isin(samples.state, RUNNING_STATES)
    ran_ns = int(time.covered(samples.time_ns[runs], samples.end_ns[runs]).sum())
    cores = parallelism.get("cores", 0.0)
    return ran_ns >= OWN_CORES * cores * time.total_ns or parallelism.get("loader workers", 0.0) > 0


def _clock(trace: Trace, track: int, waits: Intervals) -> _Clock:
    """Return a clock that stops while a thread waits for a core, and is slow in operators."""
    slices, steps, origin_ns = trace.slices, step_table(trace), trace.info.start_ns
    steady = np.flatnonzero(steady_steps(trace))
    rows = (slices.kind == SliceKind.OPERATOR) & (slices.track == track) & (slices.duration_ns > 0)
    line = innermost(trace, np.flatnonzero(rows))
    step, owner, start, length = line.within(steps.start_ns[steady], steps.end_ns[steady])
    is_owned = owner != NO_SLICE
    kept_share = np.ones(len(owner))
    inside = union(start[is_owned], (start + length)[is_owned])
    had_cores = _time_with_cores(trace, inside, waits)
    kept_share[is_owned] = _usual_share(
        trace, step[is_owned], owner[is_owned], length[is_owned], had_cores
    )
    idle = ~is_owned
    stands = union(start[idle], (start + length)[idle]).shared_with(waits)
    slow = is_owned & (kept_share < 1)
    end = np.concatenate([(start + length)[slow], stands.end_ns])
    start = np.concatenate([start[slow], stands.start_ns])
    kept_share = np.concatenate([kept_share[slow], np.zeros(len(stands))])
    order = np.argsort(start, kind="stable")
    start, end, kept_share = start[order] - origin_ns, end[order] - origin_ns, kept_share[order]
    cut = np.cumsum((end - start) * (1 - kept_share))
    at = np.stack([start, end], axis=1).reshape(-1).astype(np.float64)
    lost = np.stack([np.concatenate([[0.0], cut])[:-1], cut], axis=1).reshape(-1)
    return _Clock(origin_ns, at, at - lost)


def _time_with_cores(trace: Trace, operators: Intervals, waits: Intervals) -> float:
    """Return the part of the operators' time in which all their threads had a core.

    As if the threads of a pool lost theirs independently of the thread that waits for them; of
    several such threads the one that lost most is taken.
    """
    samples, whole_ns = trace.samples, operators.total_ns
    if not whole_ns:
        return 0.0
    ready = np.flatnonzero((samples.state == ThreadState.READY) & (samples.stack == NO_STACK))
    begin, end = samples.time_ns[ready], samples.end_ns[ready]
    pools, which = np.unique(samples.track[ready], return_inverse=True)
    without_ns = summed(which.reshape(-1), operators.covered(begin, end), len(pools))
    lost = min(int(without_ns.max(initial=0)) / whole_ns, 1.0)
    return (whole_ns - waits.shared_with(operators).total_ns) * (1 - lost)


def _usual_share(
    trace: Trace, step: Int64, owner: Int64, length_ns: Int64, most_ns: float
) -> Float64:
    """Return the share of each piece's time that its operator takes when undisturbed.

    All of them together take no more than ``most_ns``, as far as there are quicker ones.
    """
    rows, first, which = np.unique(owner, return_index=True, return_inverse=True)
    own_ns = summed(which, length_ns, len(rows))
    name = trace.slices.name[rows].astype(np.int64)
    call = _same_call(name, step[first])
    usual_ns, is_even = _usual_ns(call, own_ns)
    if np.minimum(usual_ns, own_ns).sum() > most_ns:
        left_ns = most_ns - float(np.minimum(usual_ns, own_ns)[~is_even].sum())
        mine = (name[is_even], call[is_even], own_ns[is_even])
        usual_ns[is_even] = _nearer_to_quickest(*mine, left_ns)
    share: Float64 = np.minimum(usual_ns / own_ns, 1.0)[which]
    return share


def _same_call(name: Int64, step: Int64) -> Int64:
    """Return a number for each call that is the same in all steps: by name and order."""
    order = np.lexsort((name, step))
    first = np.ones(len(name), np.bool_)
    first[1:] = (np.diff(step[order]) != 0) | (np.diff(name[order]) != 0)
    place = np.arange(len(name))
    nth = np.empty(len(name), np.int64)
    nth[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    most = int(nth.max(initial=0)) + 1
    call: Int64 = np.unique(name * most + nth, return_inverse=True)[1].reshape(-1)
    return call


def _usual_ns(call: Int64, took_ns: Int64) -> tuple[Float64, Bool]:
    """Return how long each call, in order, takes when undisturbed.

    That is as long as it took where there are few of the same; one that takes longer and longer is
    asked of those that follow. Also return which of them are neither.
    """
    count = np.bincount(call)
    is_even = (count >= MIN_CALLS)[call]
    usual = np.where(is_even, _low(call, took_ns, USUAL)[call], np.inf)
    order = np.argsort(call, kind="stable")
    begin = np.cumsum(count) - count
    place = np.arange(len(call)) - np.repeat(begin, count)
    third = np.empty(len(call), np.int64)
    third[order] = place * 3 // count[call[order]]
    # The quickest of each third: on a busy machine, too, one was left alone.
    thirds = _low(call * 3 + third, took_ns, 0.0, 3 * len(count)).reshape(-1, 3)
    grows = (thirds[:, 1:] > GROWTH * thirds[:, :-1]).all(axis=1) & (count >= MIN_STEPS)
    for growing in np.flatnonzero(grows):
        mine = order[begin[growing] : begin[growing] + count[growing]]
        least = np.minimum.accumulate(took_ns[mine][::-1])[::-1]
        usual[mine] = np.minimum(least, least[-MIN_STEPS])
        is_even[mine] = False
    return usual, is_even


def _nearer_to_quickest(name: Int64, call: Int64, took_ns: Int64, most_ns: float) -> Float64:
    """Return durations nearer to the least of each name, ``most_ns`` in all if possible."""
    least, quickest = (
        _low(group, took_ns, 0.0)[group]
        for group in (
            np.unique(labels, return_inverse=True)[1].reshape(-1) for labels in (call, name)
        )
    )
    shortened: Float64 = least
    for nearer in np.linspace(0.0, 1.0, TRIES):
        shortened = least * (quickest / least) ** nearer
        if shortened.sum() <= most_ns:
            break
    return shortened


def _low(group: Int64, values: Int64, share: float, groups: int = 0) -> Float64:
    """Return a low quantile of each group's values; 0 for empty groups."""
    count = np.bincount(group, minlength=groups)
    begin = np.cumsum(count) - count
    # Sorted as one number, group first; what takes more than a minute is not told apart.
    most = (1 << _VALUE_BITS) - 1
    ordered = np.sort(group << _VALUE_BITS | np.minimum(values, most))
    at = np.minimum(begin + (share * np.maximum(count - 1, 0)).astype(np.int64), len(group) - 1)
    low = ordered[at] & most
    return np.where(count > 0, np.where(low < most, low, np.inf), 0.0)


def _by_clock(trace: Trace, clock: _Clock) -> Trace:
    """Return a trace with all times converted to another clock."""
    tables = {name: _table_by_clock(table, clock) for name, table in trace.tables().items()}
    slices: Slices = tables["slices"]
    tables["slices"] = replace(slices, self_ns=_own_ns(trace.slices, slices.duration_ns))
    samples: Samples = tables["samples"]
    waits = samples.state == ThreadState.READY  # the remaining time is that of the delayed work
    state = np.where(waits, np.uint8(ThreadState.NATIVE), samples.state)
    tables["samples"] = replace(samples, state=state)
    end_ns = int(clock.shown(np.array([trace.info.end_ns]))[0])
    return replace(trace, info=replace(trace.info, end_ns=end_ns), **tables)


def _table_by_clock(table: Any, clock: _Clock) -> Any:
    made: dict[str, Int64] = {}
    for name, column in type(table).columns().items():
        if column.role is not Role.TIME or not len(table):
            continue
        begin: Int64 = getattr(table, name)
        made[name] = clock.shown(begin)
        if "duration_ns" in type(table).columns():
            made["duration_ns"] = clock.shown(begin + table.duration_ns) - made[name]
    return replace(table, **made) if made else table


def _own_ns(slices: Slices, duration_ns: Int64) -> Int64:
    """Return the self time of slices with new durations."""
    inside = slices.parent != NO_PARENT
    parent = slices.parent[inside]

    def own(whole_ns: Int64) -> Int64:
        return whole_ns - summed(parent, whole_ns[inside], len(slices))

    as_stated = own(slices.duration_ns) == slices.self_ns
    share = duration_ns / np.maximum(slices.duration_ns, 1)
    scaled = np.rint(slices.self_ns * share).astype(np.int64)  # where children overlap
    return np.where(as_stated, np.maximum(own(duration_ns), 0), scaled)
