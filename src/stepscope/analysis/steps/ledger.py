"""Where a step goes: every moment of the steady steps, and what it was spent on.

The time of the parts is exact: it comes from slices. Samples tell what no slice covers (Python,
native code, waiting) and which line it is. In a program with device work only the moments in which
the devices are idle are the host's: what it does meanwhile costs nothing.

Without steps the ledger is about the whole run less start-up. Where several threads do its work,
they share the time: at each moment all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import is_named
from stepscope.analysis.calls.stated_parts import Int8, Part
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE, SampledStack, sampled_stacks
from stepscope.analysis.code.source_files import SourceFiles
from stepscope.analysis.steps.breakdown import run_parts, step_breakdown
from stepscope.analysis.steps.causes import Cause, cause_of_moment
from stepscope.analysis.steps.parts import (
    GLUE_NS,
    beside_the_model,
    host_parts,
    thread_moments,
)
from stepscope.analysis.steps.start_up import start_up_idle_ns
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import Bool, Float64, Int64, SliceKind, ThreadState, Trace, WaitReason
from stepscope.trace.names import COLLECTION

FEWEST_SAMPLES = 20  # fewer samples of a part say too little to be scaled to its exact time
# What happens in a smaller share of the steps is done now and then, as it should be.
MOST_STEPS = 0.5

_STARTUP = (Cause.IMPORT, Cause.COMPILE)
_NOT_COLLECTING = (*_STARTUP, Cause.CORE)
_WAITING_MAIN = 0.5  # share of the run; a main thread that waits longer leaves the work to others
_FOR_THREADS = (WaitReason.UNKNOWN, WaitReason.LOCK, WaitReason.POLL)  # and not for the outside
_WORKING = 0.05  # share of the run; a thread that runs longer does some of the work


@dataclass(frozen=True, slots=True)
class Ledger:
    """The moments of the steady steps; their weights add up to ``total_ns``.

    Shares of a step are of the time in which its thread had a core, or waited for anything but one:
    how much others use the machine does not change them.
    """

    unit: str  # "step", "request" or "run"
    count: int  # number of steps or requests, 1 for a run
    weight_ns: Float64
    cause: Int8
    part: Int8  # of the slices then running
    step: Int64  # index of the step
    row: Int64  # row of samples; NO_SAMPLE if slices alone show the part
    stack: Int64  # row of the trace's stacks
    stacks: Mapping[int, SampledStack] = field(repr=False)
    files: SourceFiles = field(repr=False)
    idle_ns: float = 0.0  # time in which an event loop had nothing to do; no moment includes it
    ready_ns: float = 0.0  # time in which a thread waited for a core; no moment includes it
    threads: float = 1.0  # average number of threads in steps, or at work in the run

    def __len__(self) -> int:
        return len(self.row)

    @property
    def total_ns(self) -> float:
        return float(self.weight_ns.sum())

    @property
    def unit_ns(self) -> float:
        """Return the own time of one step's thread on average; without steps, of the run."""
        return self.total_ns / max(self.count, 1)

    @property
    def whole_ns(self) -> float:
        """Return how long one step takes as measured: its thread's own time, and without a core."""
        return (self.total_ns + self.ready_ns) / max(self.count, 1)

    def by_cause(self) -> dict[Cause, float]:
        """Return the time of each cause in an average step, the longest first."""
        sums = np.bincount(self.cause, self.weight_ns, minlength=len(Cause)) / max(self.count, 1)
        order = np.argsort(-sums, kind="stable")
        return {Cause(int(i)): float(sums[i]) for i in order if sums[i] > 0}

    def spent_on(self, *causes: Cause) -> Bool:
        return np.isin(self.cause, causes)

    def where_stack(self, wanted: Callable[[SampledStack], bool]) -> Bool:
        return np.isin(self.stack, [row for row, stack in self.stacks.items() if wanted(stack)])

    def each_ns(self, which: Bool) -> float:
        """Return the time of some moments in an average step."""
        return float(self.weight_ns[which].sum()) / max(self.count, 1)

    def in_most_steps(self, which: Bool) -> bool:
        """Tell whether most steps have such moments, rather than a few now and then."""
        return len(np.unique(self.step[which])) >= MOST_STEPS * self.count

    def take(self, which: Bool) -> Ledger:
        columns = ("weight_ns", "cause", "part", "step", "row", "stack")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})


@dataclass(frozen=True, slots=True)
class _Window:
    """The time of a ledger on one thread."""

    track: int
    time: Intervals
    start_ns: Int64  # of each step
    index: Int64  # of each step


@shared
def ledger(trace: Trace) -> Ledger:
    """Return where the time of the steady steps goes, or that of the run without steps."""
    return _without_startup(ledger_with_startup(trace))


@shared
def ledger_with_startup(trace: Trace) -> Ledger:
    """Return the same including imports and compilations."""
    return _ledger_of(trace, steady_steps(trace))


def ledger_of(trace: Trace, counted: Bool) -> Ledger:
    """Return where the time of some of the steps goes."""
    return _without_startup(_ledger_of(trace, counted))


def _without_startup(made: Ledger) -> Ledger:
    return made.take(~made.spent_on(*_STARTUP))


def _ledger_of(trace: Trace, counted: Bool) -> Ledger:
    made = _whole_ledger(trace, counted)
    idles, waits = made.spent_on(Cause.POLL), made.spent_on(Cause.CORE)
    if made.unit == "step":
        idles[:] = False
    return replace(
        made.take(~idles & ~waits),
        idle_ns=float(made.weight_ns[idles].sum()),
        ready_ns=float(made.weight_ns[waits].sum()),
    )


def _whole_ledger(trace: Trace, counted: Bool) -> Ledger:
    steps = step_table(trace)
    if not len(steps):
        made = _ledger(trace, _run_windows(trace), "run", 1)
        exact_ns, on_device = run_parts(trace)
        if on_device and not len(trace.samples):  # with samples, these show the start-up
            exact_ns[Part.IDLE] -= min(start_up_idle_ns(trace), int(exact_ns[Part.IDLE]))
        if on_device or not len(trace.samples):
            made = _with_exact_parts(made, exact_ns, on_device=on_device)
        return made
    made = _ledger(trace, _step_windows(trace, counted), steps.unit, int(counted.sum()))
    if steps.by is StepsBy.REQUEST and len(trace.samples):
        return made
    breakdown = step_breakdown(trace)
    exact_ns = breakdown.parts_ns[counted].sum(axis=0)
    on_device = bool(breakdown.on_device[counted].any())
    return _with_exact_parts(made, exact_ns, on_device=on_device)


def _step_windows(trace: Trace, counted: Bool) -> list[_Window]:
    steps = step_table(trace)
    windows = []
    for track in np.unique(steps.track[counted]).tolist():
        mine = np.flatnonzero(counted & (steps.track == track))
        time = union(steps.start_ns[mine], steps.end_ns[mine])
        windows.append(_Window(track, time, steps.start_ns[mine], mine))
    return windows


def _run_windows(trace: Trace) -> list[_Window]:
    """Return the whole run of the main thread, and of the threads that it waits for.

    What child processes do is theirs: the program waits for them.
    """
    samples, info = trace.samples, trace.info
    whole = union(np.array([info.start_ns]), np.array([info.end_ns]))
    tracks = np.unique(samples.track).tolist()
    main = [track for track in tracks if trace.tracks[track].tid == str(info.pid)]
    processes = {trace.tracks[track].pid for track in main or tracks}
    own = [track for track in tracks if trace.tracks[track].pid in processes]
    waits = np.isin(samples.track, main) & (samples.state == ThreadState.BLOCKED)
    waits &= np.isin(samples.wait, _FOR_THREADS)
    waited_ns = int(samples.duration_ns[waits].sum())
    if not main or waited_ns > _WAITING_MAIN * whole.total_ns:
        # Threads of a pool that run no line of the program only pass on work.
        with_lines = [row for row, stack in sampled_stacks(trace).items() if stack.own]
        runs = (samples.state != ThreadState.BLOCKED) & np.isin(samples.stack, with_lines)
        working = np.bincount(samples.track[runs], samples.duration_ns[runs], len(trace.tracks))
        busy = [track for track in own if working[track] > _WORKING * whole.total_ns]
        main = busy or main
    return [_Window(track, whole, whole.start_ns, whole.start_ns * 0) for track in main]


def _ledger(trace: Trace, windows: list[_Window], unit: str, count: int) -> Ledger:
    windows = [window for window in windows if len(window.time.start_ns)]  # a step may take no time
    columns = [_moments(trace, window) for window in windows] or [np.zeros((6, 0))]
    row, weight, cause, part, step, stack = np.concatenate(columns, axis=1)
    threads = _windows_at_once(windows)
    if unit == "run" and len(row):
        thread_ns = weight.sum()
        weight = weight / _threads_at(trace, windows, trace.samples.time_ns[row.astype(np.int64)])
        threads = float(thread_ns / weight.sum())
    return Ledger(
        unit=unit,
        count=count,
        weight_ns=weight,
        cause=cause.astype(np.int8),
        part=part.astype(np.int8),
        step=step.astype(np.int64),
        row=row.astype(np.int64),
        stack=stack.astype(np.int64),
        stacks=sampled_stacks(trace),
        files=SourceFiles(trace),
        threads=threads,
    )


def _windows_at_once(windows: list[_Window]) -> float:
    """Return the average number of threads that are in their steps at a time."""
    times = [window.time for window in windows]
    if len(times) < 2:
        return 1.0
    any_of_them = union(
        np.concatenate([time.start_ns for time in times]),
        np.concatenate([time.end_ns for time in times]),
    )
    return sum(time.total_ns for time in times) / any_of_them.total_ns


def _threads_at(trace: Trace, windows: list[_Window], time_ns: Int64) -> Int64:
    """Return how many threads exist at some times: from their first sample to their last.

    The times are those of their samples, so that there is at least one.
    """
    samples = trace.samples
    rows = [np.flatnonzero(samples.track == window.track) for window in windows]
    begin = np.sort([samples.time_ns[mine].min() for mine in rows if len(mine)])
    end = np.sort([samples.end_ns[mine].max() for mine in rows if len(mine)])
    alive: Int64 = np.searchsorted(begin, time_ns, "right") - np.searchsorted(end, time_ns, "right")
    return alive


def _moments(trace: Trace, window: _Window) -> Float64:
    """Return the samples of a thread in a window, as columns of a ledger."""
    samples = trace.samples
    rows = np.flatnonzero(samples.track == window.track)
    weight = window.time.covered(samples.time_ns[rows], samples.end_ns[rows])
    busy = _device_busy(trace, window)
    if busy is not None:
        weight = weight - busy.covered(samples.time_ns[rows], samples.end_ns[rows])
    rows, weight = rows[weight > 0], weight[weight > 0]
    time_ns = np.maximum(samples.time_ns[rows], window.time.start_ns[:1])
    part = _part_at(trace, window.track, time_ns)
    kinds = np.append(trace.slices.kind, SliceKind.OTHER)  # the last for no slice
    kind = kinds[samples.slice[rows]]
    keys = (
        samples.stack[rows],
        samples.state[rows],
        samples.wait[rows],
        part,
        np.isin(kind, (SliceKind.OPERATOR, SliceKind.RUNTIME)),
        np.append(beside_the_model(trace), False)[samples.slice[rows]],
        _long_gaps(trace, window).contain(time_ns),
    )
    cause = _causes(sampled_stacks(trace), np.stack(keys).astype(np.int64))
    collects = _collecting(trace, window).contain(time_ns) & ~np.isin(cause, _NOT_COLLECTING)
    cause[collects] = Cause.COLLECTION
    at = np.searchsorted(window.start_ns, time_ns, side="right") - 1
    step = window.index[np.maximum(at, 0)]
    return np.stack([rows, weight, cause, part, step, samples.stack[rows]]).astype(np.float64)


def _causes(stacks: Mapping[int, SampledStack], keys: Int64) -> Int8:
    """Return the cause of each moment; there are few distinct keys."""
    distinct, which = np.unique(keys, axis=1, return_inverse=True)
    causes = [
        cause_of_moment(
            *(stacks[stack], state, wait, part),
            in_operator=bool(operator),
            is_beside=bool(beside),
            in_gap=bool(gap),
        )
        for stack, state, wait, part, operator, beside, gap in distinct.T.tolist()
    ]
    return np.array(causes, np.int8)[which.reshape(-1)]


def _part_at(trace: Trace, track: int, time_ns: Int64) -> Int64:
    moments = thread_moments(trace, host_parts(trace), track)
    if not len(moments.part):
        return np.full(len(time_ns), Part.OTHER, np.int64)
    at = np.searchsorted(moments.start_ns, time_ns, side="right") - 1
    inside = (at >= 0) & (time_ns < moments.end_ns[at])
    return np.where(inside, moments.part[at], Part.OTHER).astype(np.int64)


def _device_busy(trace: Trace, window: _Window) -> Intervals | None:
    """Return when devices are busy within the window; None without device work."""
    work = device_work(trace)
    if not len(work):
        return None
    return work.busy(np.ones(len(work), np.bool_)).shared_with(window.time)


def _long_gaps(trace: Trace, window: _Window) -> Intervals:
    """Return where a thread runs no operator for longer than Python takes between two."""
    slices = trace.slices
    is_operator = np.isin(slices.kind, (SliceKind.OPERATOR, SliceKind.RUNTIME))
    rows = np.flatnonzero((slices.track == window.track) & is_operator)
    running = union(slices.start_ns[rows], slices.ends_of(rows))
    gaps = running.gaps(int(window.time.start_ns[0]), int(window.time.end_ns[-1]))
    long = gaps.end_ns - gaps.start_ns > GLUE_NS
    return union(gaps.start_ns[long], gaps.end_ns[long])


def _collecting(trace: Trace, window: _Window) -> Intervals:
    slices = trace.slices
    collects = is_named(trace, lambda name: name.startswith(COLLECTION))
    rows = np.flatnonzero(collects & (slices.track == window.track))
    return union(slices.start_ns[rows], slices.ends_of(rows))


def _with_exact_parts(made: Ledger, parts_ns: Int64, *, on_device: bool) -> Ledger:
    """Scale the samples of each part to its exact time by slices; add parts without samples.

    What devices do is known by slices alone; the samples tell why they are idle.
    """
    exact_ns = parts_ns.astype(np.float64)
    groups = {part: made.part == part for part in Part}
    if on_device:
        groups = {part: np.zeros(len(made), np.bool_) for part in Part}
        groups[Part.IDLE] = ~groups[Part.IDLE]
        if len(made):
            exact_ns[Part.IDLE] += exact_ns[Part.DATA_LOADING]
            exact_ns[Part.DATA_LOADING] = 0
    weight = np.zeros(len(made))
    missing = []
    for part, mine in groups.items():
        if mine.sum() >= FEWEST_SAMPLES:
            weight[mine] = made.weight_ns[mine] * exact_ns[part] / made.weight_ns[mine].sum()
        elif exact_ns[part]:
            missing.append((part, exact_ns[part]))
    return _with_parts(replace(made, weight_ns=weight).take(weight > 0), missing)


def _with_parts(made: Ledger, parts: list[tuple[Part, float]]) -> Ledger:
    """Add the time of parts without samples."""
    nothing = np.full(len(parts), NO_SAMPLE, np.int64)
    part = np.array([part for part, _ in parts], np.int8)
    return replace(
        made,
        weight_ns=np.concatenate([made.weight_ns, [ns for _, ns in parts]]),
        cause=np.concatenate([made.cause, part]),  # causes begin with the parts
        part=np.concatenate([made.part, part]),
        step=np.concatenate([made.step, nothing]),
        row=np.concatenate([made.row, nothing]),
        stack=np.concatenate([made.stack, nothing]),
    )
