"""Facts about a trace that several detectors need, each derived once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from stepscope.analysis.base.advice import advise, frameworks_of
from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.base.sums import around, inside
from stepscope.analysis.base.tree import outermost, rows_named
from stepscope.analysis.calls.stated_parts import Int8, Part
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE
from stepscope.analysis.device.steps import device_steps
from stepscope.analysis.steps.breakdown import (
    StepBreakdown,
    device_parts,
    run_parts,
    step_breakdown,
)
from stepscope.analysis.steps.ledger import Ledger, ledger
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.start_up import StartUp
from stepscope.analysis.steps.steps import steady_steps
from stepscope.analysis.work.idle import IdleGaps, IdleReason, idle_gaps
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import MODEL_ID
from stepscope.trace.model import NO_SLICE, Bool, Float64, Int64, SliceKind, Trace

TRAINING, GRAD, DTYPE = "Training", "Grad", "Input dtype"

# Share of the steps' time for which devices work on after the host has ended the last step.
FAR_AHEAD = 0.25

_AMD_NAMES = ("AMD", "Instinct", "Radeon", "gfx")


class Facts:
    """A trace, and what is derived from it on first use."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def work(self) -> DeviceWork:
        return device_work(self.trace)

    @cached_property
    def parts(self) -> Int8:
        return host_parts(self.trace)

    @cached_property
    def breakdown(self) -> StepBreakdown:
        return step_breakdown(self.trace, self.work, self.parts)

    @cached_property
    def device_parts_ns(self) -> Float64:
        """Return the devices' time per Part in an average step; without steps, in the run."""
        if not self.steps:
            parts_ns, on_device = run_parts(self.trace, self._begin_ns)
            spent_ns = parts_ns.astype(np.float64) * on_device
            # Devices wait for start-up before the first work and during one-time work.
            start_up_ns = spent_ns.sum() - self.device_ns / max(len(self.work.devices), 1)
            spent_ns[Part.IDLE] -= min(max(start_up_ns, 0.0), spent_ns[Part.IDLE])
            return spent_ns
        time = self.device_time
        if time is not self.step_time:
            found_ns = device_parts(self.trace, time.start_ns, time.end_ns).sum(axis=0)
            ahead: Float64 = found_ns.astype(np.float64) / self.steps
            return ahead
        counted = self.counted & self.breakdown.on_device
        in_steps: Float64 = self.breakdown.parts_ns[counted].sum(axis=0) / self.steps
        return in_steps

    @cached_property
    def device_time(self) -> Intervals:
        """Return the time of the steps that count, as devices see them.

        That is the host's, unless it runs ahead so far that what a step launches runs after it.
        """
        host, seen = self.step_time, device_steps(self.trace, self.work)
        if not len(host) or not len(seen.step):
            return host
        counted = np.isin(seen.step, self.breakdown.step[self.counted])
        devices = np.array(seen.device)
        names = dict.fromkeys(seen.device)
        busiest = max(names, key=lambda name: int(seen.busy_ns[devices == name].sum()))
        mine = counted & (devices == busiest)
        time = union(seen.start_ns[mine], (seen.start_ns + seen.device_ns)[mine])
        if not len(time) or time.end_ns[-1] - host.end_ns[-1] < FAR_AHEAD * host.total_ns:
            return host
        return time

    def each_ns(self, which: Bool) -> float:
        """Return the devices' busy time with some work in an average step, or in the run."""
        busy = self.work.busy(which)
        if self.steps:
            return busy.shared_with(self.device_time).total_ns / self.steps
        if self._begin_ns is None:
            return busy.total_ns
        since = np.array([self._begin_ns])
        return float(busy.covered(since, np.maximum(since, self.work.end_ns.max()))[0])

    @cached_property
    def _start_up(self) -> StartUp:
        return StartUp(self.trace, self.work)

    @cached_property
    def _begin_ns(self) -> int | None:
        """Return when a run without steps has started up; None if before the recording."""
        return None if self.steps else self._start_up.end_ns

    @cached_property
    def gaps(self) -> IdleGaps:
        return idle_gaps(self.trace, self.work)

    @cached_property
    def gap_ns(self) -> Int64:
        """Return how much of each gap counts: that in steps; without steps, all but first uses.

        Compilations have a finding of their own.
        """
        gaps = self.gaps
        if self.steps:
            compiles = self._start_up.compiles.shared_with(self.device_time)
            counted: Int64 = self.device_time.covered(gaps.start_ns, gaps.end_ns)
            return counted - compiles.covered(gaps.start_ns, gaps.end_ns)
        return np.where(self._start_up.happen_once(gaps), 0, gaps.duration_ns)

    @cached_property
    def loop(self) -> Intervals:
        """Return the time of the loop: the steps; without steps, the run after start-up.

        Gaps in which something was done once are not in it.
        """
        if self.steps or not len(self.work):
            return self.step_time
        gaps, end_ns = self.gaps, int(self.work.end_ns.max())
        begin_ns = int(self.work.start_ns.min()) if self._begin_ns is None else self._begin_ns
        once = (self.gap_ns == 0) & (gaps.duration_ns > 0)
        spans = union(gaps.start_ns[once], gaps.start_ns[once] + gaps.duration_ns[once])
        return spans.gaps(min(begin_ns, end_ns), end_ns)

    def in_loop(self, rows: Int64) -> Int64:
        """Return the given slices that start in the loop."""
        return rows[self.loop.contain(self.trace.slices.start_ns[rows])]

    @cached_property
    def device_ns(self) -> int:
        """Return the time in which devices could have worked, summed over devices.

        This is the time of the steps; without, that from first to last work, less first uses.
        """
        work, gaps = self.work, self.gaps
        if self.steps:
            return max(self.device_time.total_ns * len(work.devices), 1)
        span_ns = 0
        for device in range(len(work.devices)):
            mine = work.device == device
            begin_ns = max(int(work.start_ns[mine].min()), self._begin_ns or 0)
            span_ns += max(int(work.end_ns[mine].max()) - begin_ns, 0)
        edges = gaps.parts_ns[:, [IdleReason.BEFORE_FIRST, IdleReason.AFTER_LAST]].any(axis=1)
        once = (self.gap_ns == 0) & ~edges
        if self._begin_ns is not None:
            once &= gaps.start_ns >= self._begin_ns
        return max(span_ns - int(gaps.duration_ns[once].sum()), 1)

    def idle_ns(self, *reasons: IdleReason) -> Int64:
        """Return how much of each gap has one of the given reasons, as far as the gap counts."""
        for_reasons_ns: Int64 = self.gaps.parts_ns[:, list(reasons)].sum(axis=1)
        return np.minimum(for_reasons_ns, self.gap_ns)

    @cached_property
    def counted(self) -> Bool:
        """Return a mask of the steady steps with a known start, or of all if there are none."""
        whole = self.breakdown.is_whole & steady_steps(self.trace)
        return whole if whole.any() else np.ones(len(whole), np.bool_)

    @cached_property
    def ledger(self) -> Ledger:
        """Return what every moment of the steady steps was spent on."""
        return ledger(self.trace)

    @cached_property
    def operator(self) -> Int64:
        """Return the outermost operator around each moment of the ledger, NO_SLICE if none."""
        samples, slices = self.trace.samples, self.trace.slices
        outermost_operator = np.full(len(self.ledger), NO_SLICE, np.int64)
        sampled = np.flatnonzero(self.ledger.row != NO_SAMPLE)
        outermost_operator[sampled] = samples.slice[self.ledger.row[sampled]]
        is_operator = slices.kind == SliceKind.OPERATOR
        is_outermost = is_operator & ~inside(slices.parent, is_operator)
        return around(slices.parent, outermost_operator, is_outermost, itself=True)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        return frameworks_of(self.trace)

    def advise(self, remedy: Remedy, default: str | None = None) -> str:
        return advise(self.trace, remedy, default)

    @property
    def background(self) -> str:
        """Return where work can be done beside the loop; requests have no loader."""
        usual = "a thread"
        return usual if self.ledger.unit == "request" else self.advise(Remedy.BACKGROUND, usual)

    def loader_with(self, **arguments: str) -> str:
        """Return how the program makes its loader with some arguments."""
        prefix = self.advise(Remedy.LOADER_PREFIX, "")
        given = ", ".join(f"{prefix}{name}={value}" for name, value in arguments.items())
        return f"{self.advise(Remedy.LOADER)}{given})"

    @property
    def advice_to_record_children(self) -> str:
        """Return how to record child processes; empty if they are recorded."""
        is_alone = len({track.pid for track in self.trace.tracks}) < 2
        return " `stepscope run` shows what they do." if is_alone else ""

    @cached_property
    def is_amd(self) -> bool:
        """Tell whether the devices are AMD's, by their names or else the runtime's calls."""
        names = [device.name for device in self.trace.devices()]
        if any(names):
            return any(word in name for name in names for word in _AMD_NAMES)
        return len(self.named(lambda name: name.startswith("hipLaunch"))) > 0

    @cached_property
    def steps(self) -> int:
        return int(self.counted.sum())

    @cached_property
    def step_time(self) -> Intervals:
        rows, breakdown = self.counted, self.breakdown
        return union(breakdown.start_ns[rows], (breakdown.start_ns + breakdown.duration_ns)[rows])

    def in_steps(self, rows: Int64) -> Int64:
        """Return the given slices that start within a step."""
        return rows[self.step_time.contain(self.trace.slices.start_ns[rows])]

    def covered_ns(self, rows: Int64) -> int:
        """Return how long any of the given slices ran within steps."""
        slices = self.trace.slices
        time = union(slices.start_ns[rows], slices.ends_of(rows))
        return time.shared_with(self.step_time).total_ns

    def named(self, wanted: Callable[[str], object]) -> Int64:
        return rows_named(self.trace, wanted)

    def within(self, rows: Int64) -> Bool:
        """Tell which slices lie inside one of the given rows, at any depth."""
        slices = self.trace.slices
        marked = np.zeros(len(slices), np.bool_)
        marked[rows] = True
        return inside(slices.parent, marked)

    def commonest(self, rows: Int64) -> str:
        ids, count = np.unique(self.trace.slices.name[rows], return_counts=True)
        return kernel_name(self.trace.strings[int(ids[count.argmax()])])

    def longest(self, rows: Int64) -> int:
        return int(rows[self.trace.slices.duration_ns[rows].argmax()])

    def on_timeline(self, row: int, query: str | None = None) -> dict[str, Any]:
        """Return evidence that shows a slice on the timeline."""
        slices = self.trace.slices
        return moment(
            int(slices.start_ns[row]),
            int(slices.ends_of(row)),
            kernel_name(self.trace.name_of(row)) if query is None else query,
        )


def moment(from_ns: int, to_ns: int, query: str = "") -> dict[str, Any]:
    """Return evidence that shows a stretch of time on the timeline."""
    shown: dict[str, Any] = {"page": "timeline", "from": from_ns, "to": to_ns}
    return shown | ({"q": query} if query else {})


class ModelCalls:
    """The outermost calls of models in the steps, one row each."""

    def __init__(self, facts: Facts) -> None:
        self._trace = facts.trace
        slices = facts.trace.slices
        modules = facts.in_steps(np.flatnonzero(slices.kind == SliceKind.MODULE))
        self.rows = outermost(facts.trace, modules)

        def argument(key: str) -> Int64:
            return slices.args.dense(key, len(slices), 1)[self.rows]

        self.training: Bool = argument(TRAINING) != 0
        self.grad: Bool = argument(GRAD) != 0
        self.model = argument(MODEL_ID)

    def input_types(self) -> list[str]:
        """Return the type of the first input of each call, as the framework spells it."""
        args, strings = self._trace.slices.args, self._trace.strings
        if not len(args.rest):
            return [""] * len(self.rows)
        texts = args.rest[self.rows]
        types = {
            text: str(pairs_of(strings[text]).get(DTYPE, "")) for text in np.unique(texts).tolist()
        }
        return [types[text] for text in texts.tolist()]


def moments_inside(facts: Facts, rows: Int64) -> Bool:
    """Return the moments of the ledger inside the given slices."""
    ledger, samples = facts.ledger, facts.trace.samples
    inside = np.append(facts.within(rows), False)  # the last for no slice
    inside[rows] = True
    is_inside = np.zeros(len(ledger), np.bool_)
    sampled = ledger.row != NO_SAMPLE
    is_inside[sampled] = inside[samples.slice[ledger.row[sampled]]]
    return is_inside
