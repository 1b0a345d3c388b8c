"""The tables of what devices reach as text: FLOP/s, how near their roofs, tensor cores."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.analysis.device.math import OperatorFlops, TensorCoreTime
from stepscope.analysis.device.peaks import Peaks
from stepscope.analysis.device.roofline import Roofline
from stepscope.text.columns import (
    OPERATOR_WIDTH,
    amount_text,
    cut_middle,
    number_text,
    numbers,
    shares,
    table_text,
    time_text,
    words,
)
from stepscope.text.layout import Column
from stepscope.trace.model import Bool
from stepscope.units import duration_text, percent_text, scaled_text


def flops_text(rows: OperatorFlops, peak: float | None, row_limit: int) -> str:
    rates = rows.flops_per_second.tolist()
    return table_text(
        rows.operator,
        row_limit,
        [
            words("Operator", [cut_middle(name) for name in rows.operator]),
            numbers("Calls", rows.calls, number_text),
            Column("Operations", [amount_text(flops, "FLOP") for flops in rows.flops.tolist()]),
            numbers("Device time", rows.device_ns, time_text),
            Column("Achieved", [amount_text(rate, "FLOP/s") for rate in rates]),
            *([Column("of peak", [percent_text(rate, peak) for rate in rates])] if peak else []),
        ],
    )


def roofline_text(rows: Roofline, row_limit: int) -> str:
    columns = [
        words("Operator", [cut_middle(name, OPERATOR_WIDTH) for name in rows.operator]),
        words("Type", rows.dtype),
        words("Shapes", [cut_middle(shapes, OPERATOR_WIDTH) for shapes in rows.shapes]),
        numbers("Calls", rows.calls, number_text),
        numbers("Device time", rows.device_ns, time_text),
        Column("FLOP/s", [amount_text(each, "FLOP/s") for each in rows.flops_per_second.tolist()]),
        Column("Bytes/s", [amount_text(each, "B/s") for each in rows.bytes_per_second.tolist()]),
        Column("FLOP/B", [f"{each:,.1f}" if each else "-" for each in rows.intensity.tolist()]),
    ]
    if rows.roof_ns.any():
        known = rows.roof_ns > 0
        columns += [
            words("Limit", [word or "-" for word in rows.limit]),
            Column("of roof", _known_only(known, map(percent_text, rows.share.tolist()))),
            Column("at 80 %", _known_only(known, map(duration_text, rows.reachable_ns.tolist()))),
            Column("saved", _known_only(known, map(duration_text, rows.saved_ns.tolist()))),
        ]
    return table_text(rows.operator, row_limit, columns)


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
    return sorted(peaks.flops_per_second.items(), key=lambda each: -each[1])


def _known_only(known: Bool, cells: Iterable[str]) -> list[str]:
    return [cell if is_known else "-" for is_known, cell in zip(known, cells, strict=True)]


def tensor_core_text(rows: TensorCoreTime) -> str:
    """Return the time of compute kernels by their use of tensor cores."""
    whole_ns = rows.yes_ns + rows.no_ns + rows.unknown_ns
    columns = [words("Device", rows.device)]
    for header, times_ns in (
        ("Tensor cores", rows.yes_ns),
        ("Without", rows.no_ns),
        ("Unknown", rows.unknown_ns),
    ):
        columns += [numbers(header, times_ns, time_text), shares("%", times_ns, whole_ns)]
    return table_text(rows.device, -1, columns)
