"""Device output of the command line: a few facts per device, and one table per view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.busy import device_busy, step_busy, stream_busy
from stepscope.analysis.device.communication import (
    collective_table,
    communication_overlap,
)
from stepscope.analysis.device.copies import copy_table
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.device.math import (
    device_model,
    operator_flops,
    tensor_core_time,
)
from stepscope.analysis.device.peaks import peak_flops_per_second
from stepscope.analysis.device.power import DevicePower, device_power
from stepscope.analysis.device.queue import launch_delays, launch_queues
from stepscope.analysis.device.roofline import (
    flops_utilisation,
    model_of_trace,
    peaks_of_trace,
    roofline,
)
from stepscope.analysis.device.steps import device_steps
from stepscope.analysis.work.idle import IdleReason, device_idle, idle_gaps
from stepscope.analysis.work.work import DeviceWork, device_work
from stepscope.errors import StepscopeError
from stepscope.formats.records import write_csv, write_json
from stepscope.text import device as text
from stepscope.text.power import power_text
from stepscope.units import count_text, duration_text, scaled_text

if TYPE_CHECKING:
    from stepscope.analysis.base.table import Columns
    from stepscope.trace.model import Int64, Trace

    Fact = tuple[str, str]

OVERVIEW = "overview"
_OVERVIEW_KERNELS = 10
_REASONS_IN_A_LINE = 3
_DEVICES_IN_FACTS = 2


@dataclass(frozen=True, slots=True)
class View:
    """One question about devices: its answer as text, and the columns that ``--save`` writes."""

    show: Callable[[Trace, DeviceWork, int], str]
    columns: Callable[[Trace, DeviceWork], Columns]
    needs_work: bool = True  # kernels, copies or fills


def check_view(name: str) -> None:
    """Raise StepscopeError for a view that does not exist."""
    if name not in VIEWS:
        raise StepscopeError(f"--device {name}: unknown view; use {', '.join(VIEWS)}")


def device_text(trace: Trace, view: str, row_limit: int, save_as: str | None = None) -> str:
    """Return a view as text; ``save_as`` names a file to write its whole table to."""
    check_view(view)
    work = device_work(trace)
    if not len(work) and VIEWS[view].needs_work:
        raise StepscopeError("the trace has no device work: no kernels, copies or fills")
    if save_as is not None:
        is_csv = save_as.removesuffix(".gz").endswith(".csv")
        (write_csv if is_csv else write_json)(VIEWS[view].columns(trace, work), save_as)
    return VIEWS[view].show(trace, work, row_limit).rstrip("\n")


def device_facts(trace: Trace) -> Iterator[Fact]:
    """Yield one line per device: how busy it was, and why it was idle."""
    work = device_work(trace)
    if not len(work):
        return
    busy, idle = device_busy(trace, work), device_idle(trace, work)
    for i, device in enumerate(busy.device[:_DEVICES_IN_FACTS]):
        yield (
            f"device {device}",
            f"{_busy(busy.busy_ns[i], busy.window_ns[i])}; " + _idle_line(idle.parts_ns[i]),
        )
    if len(busy) > _DEVICES_IN_FACTS:
        share = busy.busy_ns.sum() / max(int(busy.window_ns.sum()), 1)
        yield "devices", f"{count_text(len(busy), 'device')} in all, busy {share:.1%} on average"


def _busy(busy_ns: int, window_ns: int) -> str:
    share = busy_ns / max(window_ns, 1)
    return f"busy {duration_text(busy_ns)} of {duration_text(window_ns)} ({share:.1%})"


def _idle_line(parts_ns: Int64) -> str:
    """Name the reasons that took most of the idle time."""
    whole_ns = max(int(parts_ns.sum()), 1)
    order = np.argsort(-parts_ns, kind="stable")[:_REASONS_IN_A_LINE]
    named = [
        f"{text.REASON_TEXTS[IdleReason(reason)]} {parts_ns[reason] / whole_ns:.0%}"
        for reason in order.tolist()
        if parts_ns[reason] >= 0.005 * whole_ns
    ]
    return f"idle: {', '.join(named)}" if named else "never idle"


def _overview(trace: Trace, work: DeviceWork, _: int) -> str:
    busy = device_busy(trace, work)
    parts = [text.measured_text(busy), text.idle_text(device_idle(trace, work), busy.window_ns)]
    facts = [*_launch_facts(trace, work), *_overlap_facts(trace, work), *_math_facts(trace, work)]
    parts.append("\n".join(f"{label:<15}{line}" for label, line in facts) + "\n")
    kernels = kernel_table(trace, work)
    parts.append(text.kernel_text(kernels, _OVERVIEW_KERNELS, details=False))
    others = ", ".join(name for name in VIEWS if name != OVERVIEW)
    parts.append(f"More with --device VIEW: {others}.")
    return "\n".join(parts)


def _launch_facts(trace: Trace, work: DeviceWork) -> Iterator[Fact]:
    queues = launch_queues(trace, work)
    for device in work.devices:
        i = queues.device.index(device)  # the row of all its streams comes first
        unknown = int(queues.unknown[i])
        missing = f"; {count_text(unknown, 'launch', 'launches')} not in the trace"
        if not queues.launches[i]:
            yield f"queue {device}", f"unknown{missing}"
            continue
        yield (
            f"queue {device}",
            f"delay median {duration_text(queues.median_delay_ns[i])}, "
            f"longest {duration_text(queues.max_delay_ns[i])}; "
            f"{queues.mean_length[i]:.1f} waiting on average, {queues.longest[i]:,} at most"
            f"{missing if unknown else ''}",
        )


def _overlap_facts(trace: Trace, work: DeviceWork) -> Iterator[Fact]:
    copies = copy_table(trace, work)
    if len(copies):
        copy_ns, hidden_ns = int(copies.busy_ns.sum()), int(copies.hidden_ns.sum())
        yield (
            "copies",
            f"{duration_text(copy_ns)}, {hidden_ns / max(copy_ns, 1):.1%} overlapped by kernels",
        )
    talk = communication_overlap(trace, work)
    talk_ns, exposed_ns = int(talk.communication_ns.sum()), int(talk.exposed_ns.sum())
    if talk_ns:
        yield (
            "communication",
            f"{duration_text(talk_ns)}, of which {duration_text(exposed_ns)} "
            f"({exposed_ns / talk_ns:.1%}) exposed: not overlapped by compute",
        )


def _math_facts(trace: Trace, work: DeviceWork) -> Iterator[Fact]:
    cores = tensor_core_time(trace, work)
    yes, no, unknown = (int(c.sum()) for c in (cores.yes_ns, cores.no_ns, cores.unknown_ns))
    whole = max(yes + no + unknown, 1)
    yield (
        "tensor cores",
        f"{yes / whole:.1%} of compute kernel time, {no / whole:.1%} without, "
        f"{unknown / whole:.1%} unknown, by kernel name",
    )
    achieved = operator_flops(trace)
    if len(achieved):
        whole_ns = max(int(work.duration_ns.sum()), 1)
        rate = int(achieved.flops.sum()) * 1e9 / whole_ns
        counted = int(achieved.device_ns.sum()) / whole_ns
        yield (
            "arithmetic",
            f"{scaled_text(rate, 'FLOP/s')} over all device work{_of_peak(trace, work, rate)}; "
            f"FLOPs are known for {counted:.1%} of that time",
        )


def _of_peak(trace: Trace, work: DeviceWork, rate: float) -> str:
    peak = _peak(trace, work)
    if peak is None:
        return ""
    model, most = peak
    return f", {rate / most:.1%} of the {scaled_text(most, 'FLOP/s')} of {model}"


def _peak(trace: Trace, work: DeviceWork) -> tuple[str, float] | None:
    """Return the device model and its peak, if all devices are of one known model."""
    models = {device_model(trace, device) for device in work.devices}
    if len(models) != 1:
        return None
    model = models.pop()
    peak = peak_flops_per_second(model)
    return None if peak is None else (model, peak)


def _streams(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    return text.measured_text(stream_busy(trace, work), row_limit)


def _steps(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    rows = step_busy(trace, work)
    shown = text.step_text(rows, device_steps(trace, work), row_limit)
    return shown or "The trace has no steps."


def _idle(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    reasons = text.idle_text(device_idle(trace, work), device_busy(trace, work).window_ns)
    gaps = text.gap_text(idle_gaps(trace, work), work.window_ns()[0], row_limit)
    return f"{reasons}\nThe longest gaps; times are from the start of the recording.\n\n{gaps}"


def _queue(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    queues = text.measured_text(launch_queues(trace, work))
    delays = text.delay_text(launch_delays(trace, work), row_limit)
    return f"{queues}\nThe work that waited longest, from the start of its launch.\n\n{delays}"


def _kernels(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    return text.kernel_text(kernel_table(trace, work), row_limit) or "The trace has no kernels."


def _copies(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    return text.measured_text(copy_table(trace, work), row_limit) or "The trace has no copies."


def _communication(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    collectives = text.measured_text(collective_table(trace, work), row_limit)
    if not collectives:
        return "No communication: no kernel has the name of a collective."
    return f"{text.measured_text(communication_overlap(trace, work))}\n{collectives}"


def _flops(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    cores = text.tensor_core_text(tensor_core_time(trace, work))
    peak = _peak(trace, work)
    rows = operator_flops(trace, peak[1] if peak else np.inf)
    operators = text.measured_text(rows, row_limit)
    if not operators:
        operators = "No FLOPs are known: the trace has no input shapes (record_shapes=True)."
    elif peak is not None:
        model, most = peak
        operators += f"Peak: dense 16-bit matmuls of {model}, {scaled_text(most, 'FLOP/s')}.\n"
    return f"{cores}\n{operators}"


def _roofline(trace: Trace, work: DeviceWork, row_limit: int) -> str:
    rows = text.roofline_text(roofline(trace, work), row_limit)
    if not rows:
        return "No operator has input shapes: record with record_shapes=True, or `run --shapes`."
    used = flops_utilisation(trace, work)
    utilisation = (
        f"Model FLOP utilisation of the steps: {used:.1%} of the 16-bit peak.\n" if used else ""
    )
    roofs = text.peaks_text(model_of_trace(trace, work), peaks_of_trace(trace, work))
    return f"{rows}{utilisation}{roofs}"


def _power(trace: Trace, _: DeviceWork, row_limit: int) -> str:
    devices = device_power(trace)
    if not devices:
        return "No power was recorded: record with `run --power`, or profile(power=True)."
    over = f"{count_text(devices[0].steps, 'steady step')}" if devices[0].steps else "the run"
    how = {device.joules_by for device in devices}
    by = " Energy: by the device's own counter." if how == {"counter"} else ""
    by = by or " Energy: what the power adds up to."
    shown = power_text(devices[: row_limit if row_limit >= 0 else None])
    return f"{shown}Over {over}, {duration_text(devices[0].over_ns)}.{by}"


def _power_columns(trace: Trace, _: DeviceWork) -> Columns:
    rows = device_power(trace)
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(DevicePower)}


def _overview_columns(trace: Trace, work: DeviceWork) -> Columns:
    return device_busy(trace, work).to_columns() | device_idle(trace, work).to_columns()


VIEWS = {
    OVERVIEW: View(_overview, _overview_columns),
    "streams": View(_streams, lambda trace, work: stream_busy(trace, work).to_columns()),
    "steps": View(_steps, lambda trace, work: step_busy(trace, work).to_columns()),
    "idle": View(_idle, lambda trace, work: idle_gaps(trace, work).to_columns()),
    "queue": View(_queue, lambda trace, work: launch_delays(trace, work).to_columns()),
    "kernels": View(_kernels, lambda trace, work: kernel_table(trace, work).to_columns()),
    "copies": View(_copies, lambda trace, work: copy_table(trace, work).to_columns()),
    "communication": View(
        _communication, lambda trace, work: collective_table(trace, work).to_columns()
    ),
    "flops": View(_flops, lambda trace, _: operator_flops(trace).to_columns()),
    "roofline": View(_roofline, lambda trace, work: roofline(trace, work).to_columns()),
    "power": View(_power, _power_columns, needs_work=False),
}
