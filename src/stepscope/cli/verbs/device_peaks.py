"""``stepscope device-peaks``: what the devices of this machine really do at most."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text

if TYPE_CHECKING:
    from stepscope.frameworks.torch.device_peaks import Measured


class DevicePeaks:
    """Measure the peak throughput of this machine's GPUs.

    Runs matrix products in each number type and a large copy with PyTorch; takes a few seconds for
    each device model. The roofline (`stepscope summary TRACE --device roofline`, the report's page)
    compares traces of such a device with the result, instead of with the data sheet.
    """

    name = "device-peaks"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="measure, but do not save the result for the roofline",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        from datetime import UTC, datetime

        from stepscope.analysis.device.peaks import keep_measured
        from stepscope.frameworks.torch.device_peaks import measure_devices
        from stepscope.notices import notify

        measured = list(measure_devices(lambda what: notify(f"measuring {what}")))
        if args.json:
            document = {"devices": [_as_json(peaks) for peaks in measured]}
            print(json_text("device-peaks", document), end="")
        else:
            print("\n\n".join(_text(peaks) for peaks in measured))
        if args.dry_run:
            return 0
        when = f"{datetime.now(UTC):%Y-%m-%d}"
        for peaks in measured:
            path = keep_measured(peaks.device, peaks.flops_per_second, peaks.bytes_per_second, when)
            notify(f"the roofline compares traces of {peaks.device} with these peaks: {path}")
        return 0


def _as_json(measured: Measured) -> dict[str, Any]:
    return {
        "device": measured.device,
        "flops_per_second": measured.flops_per_second,
        "bytes_per_second": measured.bytes_per_second,
        "skipped": measured.skipped,
    }


def _text(measured: Measured) -> str:
    """Return a table of the measured peaks beside the data sheet's."""
    from stepscope.analysis.device.peaks import peaks_of
    from stepscope.text.layout import Column, text_lines
    from stepscope.units import percent_text, scaled_text

    data_sheet = peaks_of(measured.device)
    rows = [
        (kind, rate, data_sheet.flops_in(kind) if data_sheet else 0.0, "FLOP/s")
        for kind, rate in measured.flops_per_second.items()
    ]
    rows.append(
        (
            "memory",
            measured.bytes_per_second,
            data_sheet.bytes_per_second if data_sheet else 0.0,
            "B/s",
        )
    )
    columns = [
        Column(measured.device, [name for name, *_ in rows], is_text=True),
        Column("measured", [scaled_text(rate, unit) for _, rate, _, unit in rows]),
    ]
    if data_sheet is not None:
        sheet = [scaled_text(peak, unit) if peak else "-" for _, _, peak, unit in rows]
        columns.append(Column(data_sheet.source, sheet))
        columns.append(Column("share", [percent_text(rate, peak) for _, rate, peak, _ in rows]))
    lines = text_lines(columns, 40)
    lines += [f"not measured: {kind}: {why}" for kind, why in measured.skipped.items()]
    return "\n".join(lines)
