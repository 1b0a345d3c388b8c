"""The key figures that distinguish traces in a list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.host.step_operators import step_operators
from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.shared import shared_analyses
from stepscope.analysis.steps.ledger import ledger
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.analysis.steps.undisturbed import undisturbed
from stepscope.trace.model import Trace

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Figures:
    """What the list shows of a trace; None for an unknown figure."""

    events: int
    lost_events: int
    duration_ns: int
    steps: int
    median_step_ns: int | None
    device_busy: float | None  # the share of the recorded time, 0 to 1, the mean of all devices
    peak_bytes: int | None
    peak_device: str
    top_operator: str  # by self time on devices, or on the host without device work
    top_share: float | None  # of a step, or of a run without steps


def key_figures(trace: Trace) -> Figures:
    with shared_analyses():
        return _figures(trace)


def _figures(trace: Trace) -> Figures:
    busy = device_busy(trace)
    most = memory_peak(trace)
    steps, median_ns = _steps(trace)
    name, share = _top_operator(trace)
    window_ns = int(busy.window_ns.sum())
    return Figures(
        events=len(trace),
        lost_events=trace.losses.events,
        duration_ns=_duration_ns(trace),
        steps=steps,
        median_step_ns=median_ns,
        device_busy=float(busy.busy_ns.sum() / window_ns) if window_ns else None,
        peak_bytes=most.bytes if most else None,
        peak_device=most.device if most else "",
        top_operator=name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…",
        top_share=share,
    )


def _duration_ns(trace: Trace) -> int:
    window_ns = trace.info.end_ns - trace.info.start_ns
    if window_ns > 0 or not len(trace):
        return max(0, window_ns)
    return int(trace.slices.end_ns.max() - trace.slices.start_ns[0])


def _steps(trace: Trace) -> tuple[int, int | None]:
    """Return the number of steps, and the median duration of the steady ones."""
    steps, steady = step_table(trace), steady_steps(trace)
    times_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)[steady]
    return len(steps), int(np.median(times_ns)) if len(times_ns) else None


def _top_operator(trace: Trace) -> tuple[str, float | None]:
    rows, whole_ns = step_operators(trace), ledger(undisturbed(trace).trace).unit_ns
    for own_ns in (rows.device_ns, rows.self_ns):
        if own_ns.any():
            top = int(np.argmax(own_ns))
            return rows.name[top], min(float(own_ns[top]) / whole_ns, 1.0) if whole_ns else None
    return "", None
