"""The answer: what a trace says about its program, in the order in which people ask.

A verdict in one sentence, where a step goes, the lines that cost most, the problems. Terminal, page
and ``--json`` show this and nothing else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.shared import shared, shared_analyses
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.device.counters import CounterMean, counter_means
from stepscope.analysis.device.lines import device_lines
from stepscope.analysis.device.power import DevicePower, device_power
from stepscope.analysis.device.roofline import flops_utilisation
from stepscope.analysis.device.steps import DeviceStep, device_step
from stepscope.analysis.findings import Finding, Severity, find_problems
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.pauses import SomeSteps, some_steps
from stepscope.analysis.findings.spots import hot_spot, place_words, share_words
from stepscope.analysis.memory.peak import PeakMemory, peaks_of_memory
from stepscope.analysis.quantities import Quantity, measured_quantities
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.cores import CoreShortage, core_shortage
from stepscope.analysis.steps.ledger import Ledger, ledger, ledger_of, ledger_with_startup
from stepscope.analysis.steps.phases import phase_table, without_compilation
from stepscope.analysis.steps.start_up import start_up_idle_ns
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.steps.unit import unit_words
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import Bool, Trace
from stepscope.units import duration_text

MIN_ROW_SHARE = 0.005  # what takes less of a step is summed up as the rest
MIN_IMPORTS_NS = 20e6  # a few samples of imports that are not marked say little

_LINES = 5


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    ns: float
    share: float  # of the step
    place: Place | None  # the line that has most of it


@dataclass(frozen=True, slots=True)
class StepFacts:
    """How many steps there are, and how long the steady ones take."""

    count: int
    steady: int
    unit: str
    how: str
    mean_ns: float
    median_ns: float
    p99_ns: float


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The devices' part of the answer."""

    step: DeviceStep | None
    flops_utilisation: float | None  # of the 16-bit peak; None where it is not known
    lines: tuple[Row, ...] = ()  # by the device time of what they launch, their backward included

    def to_json(self) -> dict[str, Any]:
        step = self.step
        values: dict[str, Any] = {
            "flops_utilisation": self.flops_utilisation,
            "lines": [_row_json(row) for row in self.lines],
        }
        if step is not None:
            values |= {
                "device": step.device,
                "step_ns": round(step.device_ns),
                "host_step_ns": round(step.host_ns),
                "busy_ns": round(step.busy_ns),
                "waiting_for_host_ns": round(step.waiting_ns),
                "limit": step.limit,
                "by": "marks of the device" if step.by_marks else "launches in the step",
            }
        return values


@dataclass(frozen=True, slots=True)
class StartUp:
    """The time before the first steady step, and its parts."""

    total_ns: float
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a trace says about its program."""

    verdict: str
    steps: StepFacts | None
    unit: str
    unit_ns: float
    where: tuple[Row, ...]
    lines: tuple[Row, ...]
    start_up: StartUp | None
    findings: tuple[Finding, ...]
    device: DeviceFacts | None  # None: no device did any work
    memory: tuple[PeakMemory, ...]  # of each device whose memory was recorded
    power: tuple[DevicePower, ...] = ()  # of each device whose power was recorded
    counters: tuple[CounterMean, ...] = ()  # of devices, where they were recorded
    cores: CoreShortage | None = None  # None: nothing was sampled
    measures: tuple[Quantity, ...] = ()  # from outside the package, where they were recorded
    threads: float = 1.0  # average number of threads in steps, or at work in a run without steps
    some_steps: SomeSteps | None = None  # those that do more than the others; they count nowhere

    def to_json(self) -> dict[str, Any]:
        steps = self.steps
        return {
            "verdict": self.verdict,
            "steps": None
            if steps is None
            else {
                "count": steps.count,
                "steady": steps.steady,
                "unit": steps.unit,
                "how": steps.how,
                "mean_ns": round(steps.mean_ns),
                "median_ns": round(steps.median_ns),
                "p99_ns": round(steps.p99_ns),
            },
            "device": None if self.device is None else self.device.to_json(),
            "unit": self.unit,
            "unit_ns": round(self.unit_ns),
            "some_steps": self.some_steps.to_json() if self.some_steps is not None else None,
            "threads": round(self.threads, 1),
            "where": [_row_json(row) for row in self.where],
            "lines": [_row_json(row) for row in self.lines],
            "memory": [peak.to_json() for peak in self.memory],
            "power": [device.to_json() for device in self.power],
            "counters": [counter.to_json() for counter in self.counters],
            "cores": self.cores.to_json() if self.cores is not None else None,
            "measures": [quantity.to_json() for quantity in self.measures],
            "startup_ns": round(self.start_up.total_ns) if self.start_up else 0,
            "startup": {what: round(ns) for what, ns in self.start_up.parts}
            if self.start_up
            else {},
            "findings": [finding.to_json() for finding in self.findings],
        }


@shared
def answer(trace: Trace) -> Answer:
    """Return the answer to what is slow in a program, and why."""
    with shared_analyses():
        findings = tuple(find_problems(trace))
        some = some_steps(Facts(trace))
        usual = _usual_steps(trace, some)
        spent = ledger(trace) if some is None else ledger_of(trace, usual)
        steps = _step_facts(trace, usual)
        where = _where(spent)
        lines = _lines(spent)
        device = _device_facts(trace)
        limiting = device is not None and device.step is not None and device.step.limit == "device"
        costliest = device.lines if device is not None and limiting else lines
        return Answer(
            verdict=_verdict(spent, steps, where, costliest, findings),
            steps=steps,
            unit=spent.unit,
            unit_ns=spent.whole_ns,
            where=where,
            lines=lines,
            start_up=_start_up(trace),
            findings=findings,
            device=device,
            memory=tuple(peaks_of_memory(trace)),
            power=device_power(trace),
            counters=counter_means(trace),
            cores=core_shortage(trace, spent),
            measures=measured_quantities(trace),
            threads=spent.threads,
            some_steps=some,
        )


def _device_facts(trace: Trace) -> DeviceFacts | None:
    if not len(device_work(trace)):
        return None
    step = device_step(trace)
    spent = device_lines(trace)
    whole_ns = step.device_ns if step is not None else sum(spent.values())
    return DeviceFacts(step, flops_utilisation(trace), _top_lines(spent, whole_ns))


def _usual_steps(trace: Trace, some: SomeSteps | None) -> Bool:
    """Return a mask of the steady steps without those that also do something else."""
    usual = steady_steps(trace).copy()
    if some is not None:
        usual[some.steps] = False
    return usual


def _step_facts(trace: Trace, usual: Bool) -> StepFacts | None:
    steps = step_table(trace)
    if not len(steps):
        return None
    time_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)[usual]
    how = steps.by.value
    if steps.by is StepsBy.MODULE:
        how = f"one per call of {steps.name.rpartition(': ')[2]}"
    return StepFacts(
        count=len(steps),
        steady=int(usual.sum()),
        unit=steps.unit,
        how=how,
        mean_ns=float(time_ns.mean()),
        median_ns=float(np.median(time_ns)),
        p99_ns=float(np.percentile(time_ns, 99)),
    )


def _where(spent: Ledger) -> tuple[Row, ...]:
    if not spent.unit_ns:
        return ()
    rows, rest_ns = [], 0.0
    for cause, ns in spent.by_cause().items():
        if ns < MIN_ROW_SHARE * spent.unit_ns or cause is Cause.OTHER:
            rest_ns += ns
            continue
        spot = hot_spot(spent, spent.spent_on(cause))
        rows.append(Row(cause.words, ns, ns / spent.unit_ns, spot.place if spot else None))
    if rest_ns >= MIN_ROW_SHARE * spent.unit_ns:
        rows.append(Row(Cause.OTHER.words, rest_ns, rest_ns / spent.unit_ns, None))
    return tuple(sorted(rows, key=lambda row: -row.ns))


def _lines(spent: Ledger) -> tuple[Row, ...]:
    """Return the program's own lines that cost most themselves, with what they call elsewhere."""
    sums: dict[Place, float] = {}
    for stack, sampled_stack in spent.stacks.items():
        if sampled_stack.line is not None:
            ns = spent.each_ns(spent.stack == stack)
            if ns:
                sums[sampled_stack.line] = sums.get(sampled_stack.line, 0.0) + ns
    return _top_lines(sums, spent.unit_ns)


def _top_lines(sums: dict[Place, float], whole_ns: float) -> tuple[Row, ...]:
    top = sorted(sums, key=lambda place: -sums[place])[:_LINES]
    return tuple(
        Row(place_words(place), sums[place], sums[place] / whole_ns, place)
        for place in top
        if sums[place] >= MIN_ROW_SHARE * whole_ns
    )


def _start_up(trace: Trace) -> StartUp | None:
    """Return the time before the first steady step, by what it was spent on."""
    steps, steady = step_table(trace), steady_steps(trace)
    info = trace.info
    begin, end = info.start_ns, info.end_ns
    phases = [(phase.name, float(phase.total_ns)) for phase in phase_table(trace)]
    if not len(steps):
        phases = _with_sampled_imports(trace, phases)
        once_ns = 0.0 if len(trace.samples) else float(start_up_idle_ns(trace))
        compiled_ns = sum(ns for _, ns in phases)
        if once_ns > compiled_ns:  # devices wait for the compiler, too
            phases.append(("first uses", once_ns - compiled_ns))
        return StartUp(sum(ns for _, ns in phases), tuple(phases)) if phases else None
    end = int(steps.start_ns[steady].min())
    if end <= begin:
        return None
    parts = [(name, ns) for name, ns in phases if ns]
    warming = np.flatnonzero(~steady & (steps.start_ns < end))
    if len(warming) and steps.by is not StepsBy.OPTIMIZER:
        first = union(steps.start_ns[warming], steps.end_ns[warming])
        parts.append(("first steps", float(first.total_ns)))
    return StartUp(float(end - begin), tuple(parts))


def _with_sampled_imports(trace: Trace, phases: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Count imports as the samples show them, if those have more: not every import is marked."""
    sampled_ns = ledger_with_startup(trace).by_cause().get(Cause.IMPORT, 0.0)
    marked_ns = dict(phases).get("import", 0.0)
    if sampled_ns < max(marked_ns, MIN_IMPORTS_NS):
        return phases
    rest = [phase for phase in phases if phase[0] != "import"]
    return sorted([*rest, ("import", sampled_ns)], key=lambda phase: -phase[1])


def _verdict(
    spent: Ledger,
    steps: StepFacts | None,
    where: Sequence[Row],
    lines: Sequence[Row],
    findings: Sequence[Finding],
) -> str:
    now = duration_text(spent.whole_ns)
    worst = findings[0] if findings else None
    if worst is not None and worst.severity is not Severity.LOW:
        if not worst.saves_ns:
            return f"{worst.title}."
        then = duration_text(max(worst.of_ns - worst.saves_ns, 0))
        what = unit_words(spent.unit)
        today = duration_text(worst.of_ns)
        return f"{worst.title}. Without that {what} would take {then} instead of {today}."
    if not where:
        return "Nothing that takes time was recorded."
    most = ", ".join(f"{row.share:.0%} {row.what}" for row in where[:3])
    line = ""
    if lines:
        share = share_words(lines[0].share, spent.unit)
        line = f" The line that costs most is {lines[0].what}, {share}."
    problem = "No problem stands out" if worst is None else f"Worth knowing: {worst.title}"
    if steps is None:
        takes = f"The run takes {now} after start-up ({most}); no steps were recognised"
    else:
        takes = f"A {spent.unit} takes {now}: {most}"
    return f"{takes}. {problem}.{line}"


def _row_json(row: Row) -> dict[str, Any]:
    place = row.place._asdict() if row.place is not None else {}
    return {"what": row.what, "ns": round(row.ns), "share": row.share, **place}
