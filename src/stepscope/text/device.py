"""The tables of the device analyses as text. Columns without a value are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.table import Table
from stepscope.analysis.device.busy import StepBusy
from stepscope.analysis.device.kernels import UNKNOWN, KernelTable
from stepscope.analysis.device.math import TensorCoreTime
from stepscope.analysis.device.peaks import Peaks
from stepscope.analysis.device.queue import LaunchDelays
from stepscope.analysis.device.roofline import Roofline
from stepscope.analysis.device.steps import DeviceSteps
from stepscope.analysis.work.idle import DeviceIdle, IdleGaps, IdleReason
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.text.layout import Column, measured_column, printable, rows_left_out, text_lines
from stepscope.trace.measures import Shown
from stepscope.trace.model import Int64
from stepscope.units import duration_text, percent_text, scaled_text

OPERATOR_WIDTH = 32
_NAME_WIDTH = 52
_Rows = TypeVar("_Rows", KernelTable, LaunchDelays)


def table_text(
    rows: Sequence[object] | NDArray[np.int64], limit: int, columns: list[Column]
) -> str:
    """Return columns as lines; a last one tells how many rows were left out."""
    count = len(rows)
    if not count:
        return ""
    shown = count if limit < 0 else min(limit, count)
    cut = [Column(c.header, c.cells[:shown], c.is_text) for c in columns]
    lines = [*text_lines(cut, _NAME_WIDTH), *rows_left_out(count - shown)]
    return "\n".join(lines) + "\n"


def words(header: str, cells: Sequence[str]) -> Column:
    return Column(header, list(cells), is_text=True)


def times(header: str, values_ns: Int64) -> Column:
    return Column(header, [time_text(ns) for ns in values_ns.tolist()])


def shares(header: str, part: Int64, whole: Int64) -> Column:
    fractions = part / np.maximum(whole, 1)
    return Column(header, [percent_text(share) for share in fractions.tolist()])


def time_text(ns: int) -> str:
    return duration_text(ns) if ns else "-"


def cut_middle(text: str, width: int = _NAME_WIDTH) -> str:
    """Leave out the middle, since long names differ at their ends."""
    text = printable(text)
    tail = width // 4
    return text if len(text) <= width else f"{text[: width - tail - 3]}...{text[-tail:]}"


REASON_TEXTS = {
    IdleReason.HOST: "waiting for the host",
    IdleReason.AFTER_SYNC: "host after a synchronisation",
    IdleReason.SYNCHRONISATION: "host synchronising",
    IdleReason.DATA_LOADING: "data loading",
    IdleReason.LAUNCH: "launch overhead",
    IdleReason.QUEUED: "between queued work",
    IdleReason.BEFORE_FIRST: "before the first work",
    IdleReason.AFTER_LAST: "after the last work",
    IdleReason.UNKNOWN: "launch not in the trace",
}


def kernel_name_text(name: str) -> str:
    """Return a kernel's short name without control characters."""
    return printable(kernel_name(name))


def step_text(rows: StepBusy, on_device: DeviceSteps, row_limit: int = -1) -> str:
    """Return each step's time on the host, and how long devices were busy and took."""
    devices_of_steps = zip(on_device.step.tolist(), on_device.device, strict=True)
    place = {key: i for i, key in enumerate(devices_of_steps)}
    at = [place.get(key) for key in zip(rows.step.tolist(), rows.device, strict=True)]
    took, limit = on_device.device_ns.tolist(), on_device.limit
    columns = [
        Column("Step", [str(step) for step in rows.step.tolist()]),
        words("Device", rows.device),
        times("On the host", rows.duration_ns),
        times("Busy", rows.busy_ns),
        shares("Busy %", rows.busy_ns, rows.duration_ns),
        times("Idle", rows.idle_ns),
    ]
    if place:
        columns += [
            Column("On the device", ["-" if i is None else time_text(took[i]) for i in at]),
            words("Limit", ["-" if i is None else limit[i] for i in at]),
        ]
    return table_text(rows.device, row_limit, columns)


def idle_text(rows: DeviceIdle, windows_ns: Int64) -> str:
    """Return why devices were idle, a row per reason."""
    reasons = [reason for reason in IdleReason if rows.parts_ns[:, reason].any()]
    columns = [words("Idle", [REASON_TEXTS[reason] for reason in reasons] + ["in all"])]
    for i, device in enumerate(rows.device):
        parts = np.append(rows.parts_ns[i, reasons], rows.idle_ns[i])
        columns.append(times(f"Device {device}", parts))
        columns.append(shares("of its time", parts, np.full(len(parts), windows_ns[i])))
    return table_text(columns[0].cells, -1, columns)


def gap_text(rows: IdleGaps, from_ns: int, row_limit: int) -> str:
    order = np.argsort(-rows.duration_ns, kind="stable")[: row_limit if row_limit >= 0 else None]
    parts = rows.parts_ns[order]
    reason = rows.reason[order].tolist()
    before = rows.before[order]
    main_ns = parts[np.arange(len(order)), reason]
    return table_text(
        order,
        -1,
        [
            words("Device", rows.device.take(order)),
            Column("At", [duration_text(ns) for ns in (rows.start_ns[order] - from_ns)]),
            times("Gap", rows.duration_ns[order]),
            words("Mostly", [REASON_TEXTS[IdleReason(value)] for value in reason]),
            shares("%", main_ns, rows.duration_ns[order]),
            words("Then", [cut_middle(kernel_name_text(n)) for n in rows.work.names(before)]),
            words(
                "Launched by",
                [cut_middle(n, OPERATOR_WIDTH) for n in rows.work.operator_names(before)],
            ),
        ],
    )


def delay_text(rows: LaunchDelays, row_limit: int) -> str:
    """Return the work that waited longest for its start."""
    order = np.argsort(-rows.delay_ns, kind="stable")[: row_limit if row_limit >= 0 else None]
    return measured_text(_with_short_names(rows.take(order)))


def kernel_text(rows: KernelTable, row_limit: int, *, details: bool = True) -> str:
    return measured_text(_with_short_names(rows), row_limit, details=details)


def _with_short_names(rows: _Rows) -> _Rows:
    """Return rows of kernels and operators with names that fit a table."""
    return replace(
        rows,
        name=tuple(cut_middle(kernel_name_text(name)) for name in rows.name),
        operator=tuple(cut_middle(name, OPERATOR_WIDTH) for name in rows.operator),
    )


def measured_text(rows: Table, row_limit: int = -1, *, details: bool = True) -> str:
    """Return the measures of a table, without those that no row has."""
    where = (Shown.EVERYWHERE, Shown.DETAILS) if details else (Shown.EVERYWHERE,)
    shown = (
        (measure, values) for measure, values in rows.stated().items() if measure.shown in where
    )
    columns = [measured_column(measure, values) for measure, values in shown if _has_values(values)]
    return table_text(range(len(rows)), row_limit, columns)


def _has_values(values: Sequence[str] | NDArray[Any]) -> bool:
    if isinstance(values, np.ndarray):
        return bool(((values != UNKNOWN) & (values != 0)).any())
    return any(values)


def roofline_text(rows: Roofline, row_limit: int) -> str:
    operators = tuple(cut_middle(name, OPERATOR_WIDTH) for name in rows.operator)
    shapes = tuple(cut_middle(text, OPERATOR_WIDTH) for text in rows.shapes)
    return measured_text(replace(rows, operator=operators, shapes=shapes), row_limit)


def peaks_text(model: str, peaks: Peaks | None) -> str:
    """Return a device's roofs and where they come from."""
    if peaks is None:
        return (
            "The peaks of this device are not known: there is no roof to compare with. "
            "On its machine, `stepscope device-peaks` measures them.\n"
        )
    rates = [f"{scaled_text(rate, 'FLOP/s')} {kind}" for kind, rate in most_first(peaks)]
    memory = scaled_text(peaks.bytes_per_second, "B/s")
    return f"Roofs of {model}: {', '.join(rates)}; {memory} memory ({peaks.source}).\n"


def most_first(peaks: Peaks) -> list[tuple[str, float]]:
    return sorted(peaks.flops_per_second.items(), key=lambda entry: -entry[1])


def tensor_core_text(rows: TensorCoreTime) -> str:
    """Return the time of compute kernels by their use of tensor cores."""
    whole_ns = rows.yes_ns + rows.no_ns + rows.unknown_ns
    columns = [words("Device", rows.device)]
    for header, times_ns in (
        ("Tensor cores", rows.yes_ns),
        ("Without", rows.no_ns),
        ("Unknown", rows.unknown_ns),
    ):
        columns += [times(header, times_ns), shares("%", times_ns, whole_ns)]
    return table_text(rows.device, -1, columns)
