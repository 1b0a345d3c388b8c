"""What the command line prints about a trace: a few facts, then the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.memory.sites import asker_of
from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.memory.usage import devices
from stepscope.cli.base.device import device_facts
from stepscope.cli.base.printing import Fact, show_findings
from stepscope.cli.base.streams import say
from stepscope.formats.base.asynchronous import async_rows
from stepscope.record.limits import RECORD_BYTES
from stepscope.text.answer import cores_text, lines_text, where_text
from stepscope.text.power import counter_lines, power_line
from stepscope.units import count_text, duration_text, percent_text, size_text

if TYPE_CHECKING:
    from stepscope.analysis.answer import Answer, DeviceFacts
    from stepscope.trace.model import Trace

_NOT_IMPORTED = "was not imported"  # a framework that the program does not use


def headline(trace: Trace) -> str:
    """Return a one-line summary of what was recorded."""
    window_ns = trace.info.end_ns - trace.info.start_ns
    return f"{count_text(len(trace), 'event')} on {_places(trace)} in {duration_text(window_ns)}"


def facts(trace: Trace) -> Iterator[Fact]:
    """Yield the facts that are shown above a trace's table."""
    info = trace.info
    yield from device_facts(trace)
    yield from _peaks(trace)
    for name, says in info.sources.items():
        if not says.endswith(_NOT_IMPORTED):
            yield name, says
    window_ns = info.end_ns - info.start_ns
    if info.overhead_ns and window_ns > 0:
        cost_ns = len(trace) * info.overhead_ns
        share = cost_ns / window_ns
        yield (
            "overhead",
            f"about {duration_text(cost_ns)}, {share:.2%} of the time "
            f"({count_text(len(trace), 'event')} at {duration_text(info.overhead_ns)} each), and "
            f"{size_text(len(trace) * RECORD_BYTES)} of memory",
        )
    if info.losses.events:
        yield "lost", _losses(trace)
    if info.anomalies:
        yield "anomalies", ", ".join(f"{what}: {n:,}" for what, n in info.anomalies.items())


def answer_facts(answer: Answer) -> Iterator[Fact]:
    """Yield what an answer says about steps and start-up."""
    steps = answer.steps
    if steps is None:
        shared = f"; {answer.threads:.0f} threads share its time" if answer.threads >= 2 else ""
        of_what = "shares are of the run, without imports and compilation"
        yield "steps", f"none recognised: {of_what}{shared}"
    else:
        spread = f"mean {duration_text(steps.mean_ns)}, median {duration_text(steps.median_ns)}"
        if steps.unit == "request":
            spread = f"p50 {duration_text(steps.median_ns)}, p99 {duration_text(steps.p99_ns)}"
        unsteady = steps.count - steps.steady
        steady = (
            ", without the first" if unsteady == 1 else f", over the {steps.steady:,} steady ones"
        )
        label = f"{steps.unit}s"
        yield label, f"{steps.count:,}, {steps.how}: {spread}{steady if unsteady else ''}"
    if cores := cores_text(answer):
        yield "machine", cores
    if answer.device is not None:
        yield from _device_facts(answer.device)
    for device in answer.power:
        yield "power", power_line(device)
    for line in counter_lines(answer.counters):
        yield "hardware", line
    for measured in answer.measures:
        whole = measured.text(measured.total or 0)
        a_step = "" if measured.a_step is None else f", {measured.text(measured.a_step)} a step"
        yield measured.words, f"{whole}{a_step}"
    if answer.start_up is not None:
        parts_shown = [f"{what} {duration_text(ns)}" for what, ns in answer.start_up.parts]
        parts = f": {', '.join(parts_shown)}" if parts_shown else ""
        took = duration_text(answer.start_up.total_ns)
        yield "start-up", f"{took}{parts}; not counted in any share below"


def _device_facts(facts: DeviceFacts) -> Iterator[Fact]:
    """Yield a step as the device sees it, and how much of the device its operations use."""
    step = facts.step
    if step is not None:
        waits = f", waits {duration_text(step.waiting_ns)} for the host" if step.waiting_ns else ""
        yield (
            "on device",
            f"a step takes {duration_text(step.device_ns)} on device {step.device} and "
            f"{duration_text(step.host_ns)} on the host: the {step.limit} is the bottleneck "
            f"(busy {duration_text(step.busy_ns)}{waits})",
        )
    if facts.flops_utilisation is not None:
        used = percent_text(facts.flops_utilisation)
        yield "flops", f"{used} of the device's 16-bit peak (model FLOP utilisation of the steps)"


def show_answer(answer: Answer, most: int | None, more: str = "") -> None:
    """Print where a step goes, the lines that cost most, and at most ``most`` findings."""
    for text in (where_text(answer), lines_text(answer)):
        if text:
            say()
            say("\n".join(f"  {line}" for line in text.splitlines()))
    show_findings(answer.findings, most, more)


def _places(trace: Trace) -> str:
    slices = trace.slices
    rows = async_rows(slices)  # what belongs to no thread
    tracks = np.unique(np.delete(slices.track, rows))
    streams = np.unique(slices.track[slices.on_device])
    threads = len(tracks) - len(streams)
    apart = np.setdiff1d(slices.track[rows], tracks)
    counts = ((threads, "thread"), (len(streams), "stream"), (len(apart), "async track"))
    places = [count_text(count, what) for count, what in counts if count] or ["0 threads"]
    return " and ".join([", ".join(places[:-1]), places[-1]] if len(places) > 1 else places)


def _peaks(trace: Trace) -> Iterator[Fact]:
    """Yield one line per device whose memory was recorded."""
    for device in devices(trace):
        peak = memory_peak(trace, device)
        if peak is not None:
            asker = asker_of(trace, peak.slice)
            who = f" in {asker}" if asker else ""
            yield "memory", f"{device}: {size_text(peak.bytes)} in use at the peak{who}"


def _losses(trace: Trace) -> str:
    losses = trace.info.losses
    if losses.fell_off:
        earlier = count_text(losses.events, "earlier event")
        return f"{earlier} dropped: only the most recent part is kept"
    limit = f" of {size_text(losses.limit_bytes)}" if losses.limit_bytes else ""
    which = f"the {losses.policy} " if losses.policy else ""
    return f"{which}{count_text(losses.events, 'event')}: the memory limit{limit} was reached"
