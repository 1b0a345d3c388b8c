"""The tables of the device analyses as text. A column appears only when it holds something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.idle import IdleReason
from stepscope.analysis.device.kernel_names import kernel_name
from stepscope.analysis.device.kernels import UNKNOWN
from stepscope.text.layout import Column, printable, rows_left_out, text_lines
from stepscope.units import duration_text, percent_text, rate_text, scaled_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.device.busy import DeviceBusy, StepBusy, StreamBusy
    from stepscope.analysis.device.communication import CollectiveTable, CommunicationOverlap
    from stepscope.analysis.device.copies import CopyTable
    from stepscope.analysis.device.idle import DeviceIdle, IdleGaps
    from stepscope.analysis.device.kernels import KernelTable
    from stepscope.analysis.device.math import OperatorFlops, TensorCoreTime
    from stepscope.analysis.device.peaks import Peaks
    from stepscope.analysis.device.queue import LaunchDelays, LaunchQueues
    from stepscope.analysis.device.roofline import Roofline
    from stepscope.analysis.device.steps import DeviceSteps
    from stepscope.trace.model import Bool, Int64

_NAME_WIDTH = 52
_OPERATOR_WIDTH = 32

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
    """Return a kernel's name as it is shown everywhere, without control characters."""
    return printable(kernel_name(name))


def busy_text(rows: DeviceBusy) -> str:
    """Lay out the busy time of devices."""
    return _text(
        rows.device,
        -1,
        [
            _words("Device", rows.device),
            _numbers("Streams", rows.streams, _count),
            _numbers("Work", rows.work, _count),
            _numbers("Window", rows.window_ns, _time),
            _numbers("Busy", rows.busy_ns, _time),
            _shares("Busy %", rows.busy_ns, rows.window_ns),
            *_kinds(rows),
        ],
    )


def stream_text(rows: StreamBusy, row_limit: int = -1) -> str:
    """Lay out the busy time of streams."""
    return _text(
        rows.device,
        row_limit,
        [
            _words("Device", rows.device),
            _words("Stream", rows.stream),
            _numbers("Work", rows.work, _count),
            _numbers("First to last", rows.end_ns - rows.start_ns, _time),
            _numbers("Busy", rows.busy_ns, _time),
            _numbers("Summed", rows.summed_ns, _time),
            *_kinds(rows),
        ],
    )


def step_text(rows: StepBusy, on_device: DeviceSteps, row_limit: int = -1) -> str:
    """Lay out steps: the busy time while they ran on the host, and how long devices took."""
    found = zip(on_device.step.tolist(), on_device.device, strict=True)
    place = {key: i for i, key in enumerate(found)}
    at = [place.get(key) for key in zip(rows.step.tolist(), rows.device, strict=True)]
    took, limit = on_device.device_ns.tolist(), on_device.limit
    columns = [
        Column("Step", [str(step) for step in rows.step.tolist()]),
        _words("Device", rows.device),
        _numbers("On the host", rows.duration_ns, _time),
        _numbers("Busy", rows.busy_ns, _time),
        _shares("Busy %", rows.busy_ns, rows.duration_ns),
        _numbers("Idle", rows.idle_ns, _time),
    ]
    if place:
        columns += [
            Column("On the device", ["-" if i is None else _time(took[i]) for i in at]),
            _words("Limit", ["-" if i is None else limit[i] for i in at]),
        ]
    return _text(rows.device, row_limit, columns)


def idle_text(rows: DeviceIdle, windows_ns: Int64) -> str:
    """Lay out why devices were idle: one row per reason that occurred."""
    reasons = [reason for reason in IdleReason if rows.parts_ns[:, reason].any()]
    columns = [_words("Idle", [REASON_TEXTS[reason] for reason in reasons] + ["in all"])]
    for i, device in enumerate(rows.device):
        parts = np.append(rows.parts_ns[i, reasons], rows.idle_ns[i])
        columns.append(_numbers(f"Device {device}", parts, _time))
        columns.append(_shares("of its time", parts, np.full(len(parts), windows_ns[i])))
    return _text(columns[0].cells, -1, columns)


def gap_text(rows: IdleGaps, from_ns: int, row_limit: int) -> str:
    """Lay out the longest gaps; starts count from ``from_ns``."""
    order = np.argsort(-rows.duration_ns, kind="stable")[: row_limit if row_limit >= 0 else None]
    parts = rows.parts_ns[order]
    reason = rows.reason[order].tolist()
    before = rows.before[order]
    main_ns = parts[np.arange(len(order)), reason]
    return _text(
        order,
        -1,
        [
            _words("Device", rows.device.take(order)),
            Column("At", [duration_text(ns) for ns in (rows.start_ns[order] - from_ns)]),
            _numbers("Gap", rows.duration_ns[order], _time),
            _words("Mostly", [REASON_TEXTS[IdleReason(value)] for value in reason]),
            _shares("%", main_ns, rows.duration_ns[order]),
            _words("Then", [_cut(kernel_name_text(n)) for n in rows.work.names(before)]),
            _words(
                "Launched by", [_cut(n, _OPERATOR_WIDTH) for n in rows.work.operator_names(before)]
            ),
        ],
    )


def queue_text(rows: LaunchQueues) -> str:
    """Lay out the queues."""
    return _text(
        rows.device,
        -1,
        [
            _words("Device", rows.device),
            _words("Stream", rows.stream),
            _numbers("Launches", rows.launches, _count),
            *_optional("Unknown", rows.unknown, _count),
            _numbers("Delay mean", rows.mean_delay_ns, _time),
            _numbers("median", rows.median_delay_ns, _time),
            _numbers("longest", rows.max_delay_ns, _time),
            _numbers("Queue longest", rows.longest, _count),
            Column("mean", [f"{length:.1f}" for length in rows.mean_length.tolist()]),
            _numbers("empty", rows.empty_ns, _time),
        ],
    )


def delay_text(rows: LaunchDelays, row_limit: int) -> str:
    """Lay out the work that waited longest for its start."""
    order = np.argsort(-rows.delay_ns, kind="stable")[: row_limit if row_limit >= 0 else None]
    return _text(
        order,
        -1,
        [
            _numbers("Delay", rows.delay_ns[order], _time),
            _numbers("Ahead", rows.ahead[order], _count),
            _words("Device", rows.device.take(order)),
            _words("Stream", rows.stream.take(order)),
            _words("Work", [_cut(kernel_name_text(n)) for n in rows.name.take(order)]),
            _words("Launched by", [_cut(n, _OPERATOR_WIDTH) for n in rows.operator.take(order)]),
        ],
    )


def kernel_text(rows: KernelTable, row_limit: int, *, details: bool = True) -> str:
    """Lay out the kernels that took longest; ``details`` adds launch shape and occupancy."""
    shape = [
        *([_words("Grid", rows.grid)] if any(rows.grid) else []),
        *([_words("Block", rows.block)] if any(rows.block) else []),
        *_optional("Regs", rows.registers, _known, UNKNOWN),
        *_optional("Shared", rows.shared_memory_bytes, _known_bytes, UNKNOWN),
        *_optional("Occ. %", rows.occupancy_percent, _known, UNKNOWN),
    ]
    return _text(
        rows.name,
        row_limit,
        [
            _words("Kernel", [_cut(kernel_name_text(name)) for name in rows.name]),
            _numbers("Count", rows.count, _count),
            _numbers("Total", rows.total_ns, _time),
            Column("Busy %", [percent_text(share) for share in rows.busy_share.tolist()]),
            _numbers("Mean", rows.mean_ns, _time),
            _numbers("Max", rows.max_ns, _time),
            _words("Tensor", rows.tensor_cores),
            *(shape if details else []),
            _words("Launched by", [_cut(name, _OPERATOR_WIDTH) for name in rows.operator]),
        ],
    )


def copy_text(rows: CopyTable, row_limit: int = -1) -> str:
    """Lay out the copies."""
    return _text(
        rows.device,
        row_limit,
        [
            _words("Device", rows.device),
            _words("Copy", [printable(name) for name in rows.name]),
            _numbers("Count", rows.count, _count),
            _numbers("Size", rows.bytes, size_text),
            *_optional("Size unknown", rows.untold, _count),
            _numbers("Time", rows.busy_ns, _time),
            Column("Bandwidth", [_rate(rate) for rate in rows.bytes_per_second]),
            _numbers("Overlapped", rows.hidden_ns, _time),
            _shares("%", rows.hidden_ns, rows.busy_ns),
        ],
    )


def communication_text(rows: CommunicationOverlap) -> str:
    """Lay out how communication overlaps compute."""
    return _text(
        rows.device,
        -1,
        [
            _words("Device", rows.device),
            _numbers("Communication", rows.communication_ns, _time),
            _numbers("Compute", rows.compute_ns, _time),
            _numbers("Both", rows.overlap_ns, _time),
            _numbers("Exposed", rows.exposed_ns, _time),
            _shares("Exposed %", rows.exposed_ns, rows.communication_ns),
        ],
    )


def collective_text(rows: CollectiveTable, row_limit: int = -1) -> str:
    """Lay out the collectives."""
    return _text(
        rows.device,
        row_limit,
        [
            _words("Device", rows.device),
            _words("Collective", [printable(name) for name in rows.collective]),
            *([_words("Type", rows.dtype)] if any(rows.dtype) else []),
            *_optional("Ranks", rows.group_size, _known, UNKNOWN),
            _numbers("Count", rows.count, _count),
            _numbers("Total", rows.total_ns, _time),
            _numbers("Exposed", rows.exposed_ns, _time),
            *_optional("Size", rows.bytes, size_text),
            *(
                [Column("Bandwidth", [_rate(rate) for rate in rows.bytes_per_second])]
                if rows.bytes.any()
                else []
            ),
        ],
    )


def flops_text(rows: OperatorFlops, peak: float | None, row_limit: int) -> str:
    """Lay out the FLOP/s of operators, against the device's ``peak`` where it is known."""
    rates = rows.flops_per_second.tolist()
    return _text(
        rows.operator,
        row_limit,
        [
            _words("Operator", [_cut(name) for name in rows.operator]),
            _numbers("Calls", rows.calls, _count),
            Column("Operations", [_operations(flops, "FLOP") for flops in rows.flops.tolist()]),
            _numbers("Device time", rows.device_ns, _time),
            Column("Achieved", [_operations(rate, "FLOP/s") for rate in rates]),
            *([Column("of peak", [percent_text(rate, peak) for rate in rates])] if peak else []),
        ],
    )


def roofline_text(rows: Roofline, row_limit: int) -> str:
    """Lay out how far operators are from what the device can do."""
    columns = [
        _words("Operator", [_cut(name, _OPERATOR_WIDTH) for name in rows.operator]),
        _words("Type", rows.dtype),
        _words("Shapes", [_cut(shapes, _OPERATOR_WIDTH) for shapes in rows.shapes]),
        _numbers("Calls", rows.calls, _count),
        _numbers("Device time", rows.device_ns, _time),
        Column("FLOP/s", [_operations(each, "FLOP/s") for each in rows.flops_per_second.tolist()]),
        Column("Bytes/s", [_operations(each, "B/s") for each in rows.bytes_per_second.tolist()]),
        Column("FLOP/B", [f"{each:,.1f}" if each else "-" for each in rows.intensity.tolist()]),
    ]
    if rows.roof_ns.any():
        known = rows.roof_ns > 0
        columns += [
            _words("Limit", [word or "-" for word in rows.limit]),
            Column("of roof", _known_only(known, map(percent_text, rows.share.tolist()))),
            Column("at 80 %", _known_only(known, map(duration_text, rows.reachable_ns.tolist()))),
            Column("saved", _known_only(known, map(duration_text, rows.saved_ns.tolist()))),
        ]
    return _text(rows.operator, row_limit, columns)


def peaks_text(model: str, peaks: Peaks | None) -> str:
    """Say which roofs a device has, and who says so."""
    if peaks is None:
        return (
            "The peaks of this device are not known: there is no roof to compare with. "
            "On its machine, `stepscope device-peaks` measures them.\n"
        )
    rates = [f"{scaled_text(rate, 'FLOP/s')} {kind}" for kind, rate in most_first(peaks)]
    memory = scaled_text(peaks.bytes_per_second, "B/s")
    return f"Roofs of {model}: {', '.join(rates)}; {memory} memory ({peaks.source}).\n"


def most_first(peaks: Peaks) -> list[tuple[str, float]]:
    """Return the peaks by type, the highest first."""
    return sorted(peaks.flops_per_second.items(), key=lambda each: -each[1])


def _known_only(known: Bool, cells: Iterable[str]) -> list[str]:
    return [cell if is_known else "-" for is_known, cell in zip(known, cells, strict=True)]


def tensor_core_text(rows: TensorCoreTime) -> str:
    """Lay out the time of compute kernels by their use of tensor cores."""
    whole_ns = rows.yes_ns + rows.no_ns + rows.unknown_ns
    columns = [_words("Device", rows.device)]
    for header, times_ns in (
        ("Tensor cores", rows.yes_ns),
        ("Without", rows.no_ns),
        ("Unknown", rows.unknown_ns),
    ):
        columns += [_numbers(header, times_ns, _time), _shares("%", times_ns, whole_ns)]
    return _text(rows.device, -1, columns)


def _text(rows: Sequence[object] | NDArray[np.int64], limit: int, columns: list[Column]) -> str:
    count = len(rows)
    if not count:
        return ""
    shown = count if limit < 0 else min(limit, count)
    cut = [Column(c.header, c.cells[:shown], c.is_text) for c in columns]
    lines = [*text_lines(cut, _NAME_WIDTH), *rows_left_out(count - shown)]
    return "\n".join(lines) + "\n"


def _kinds(rows: DeviceBusy | StreamBusy) -> list[Column]:
    return [
        *_optional("Compute", rows.compute_ns, _time),
        *_optional("Communication", rows.communication_ns, _time),
        *_optional("Copies", rows.copy_ns, _time),
        *_optional("Fills", rows.fill_ns, _time),
    ]


def _words(header: str, cells: Sequence[str]) -> Column:
    return Column(header, list(cells), is_text=True)


def _numbers(header: str, values: Int64, show: Callable[[int], str]) -> Column:
    return Column(header, [show(value) for value in values.tolist()])


def _optional(
    header: str, values: Int64, show: Callable[[int], str], nothing: int = 0
) -> list[Column]:
    return [_numbers(header, values, show)] if (values != nothing).any() else []


def _shares(header: str, part: Int64, whole: Int64) -> Column:
    shares = part / np.maximum(whole, 1)
    return Column(header, [percent_text(share) for share in shares.tolist()])


def _time(ns: int) -> str:
    return duration_text(ns) if ns else "-"


def _count(count: int) -> str:
    return f"{count:,}"


def _known(value: int) -> str:
    return "" if value == UNKNOWN else str(value)


def _known_bytes(value: int) -> str:
    return "" if value == UNKNOWN else size_text(value) if value else "-"


def _rate(bytes_per_second: float) -> str:
    return rate_text(bytes_per_second) if bytes_per_second else "-"


def _operations(count: float, unit: str) -> str:
    return scaled_text(count, unit) if count else "-"


def _cut(text: str, width: int = _NAME_WIDTH) -> str:
    """Leave out the middle: long names differ at their ends."""
    text = printable(text)
    tail = width // 4
    return text if len(text) <= width else f"{text[: width - tail - 3]}...{text[-tail:]}"
