"""``stepscope device-peaks``: what the devices of this machine really do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.cli.json_output import json_text

if TYPE_CHECKING:
    import argparse

    from stepscope.cli.command import ExitCode, Parser
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

        found = list(measure_devices(lambda what: notify(f"measuring {what}")))
        if args.json:
            told = {"devices": [_as_json(each) for each in found]}
            print(json_text("device-peaks", told), end="")
        else:
            print("\n\n".join(_text(each) for each in found))
        if args.dry_run:
            return 0
        when = f"{datetime.now(UTC):%Y-%m-%d}"
        for each in found:
            path = keep_measured(each.device, each.flops_per_second, each.bytes_per_second, when)
            notify(f"the roofline compares traces of {each.device} with these peaks: {path}")
        return 0


def _as_json(found: Measured) -> dict[str, Any]:
    return {
        "device": found.device,
        "flops_per_second": found.flops_per_second,
        "bytes_per_second": found.bytes_per_second,
        "skipped": found.skipped,
    }


def _text(found: Measured) -> str:
    """Return a table of the measured peaks beside the data sheet's."""
    from stepscope.analysis.device.peaks import peaks_of
    from stepscope.text.layout import Column, text_lines
    from stepscope.units import percent_text, scaled_text

    told = peaks_of(found.device)
    rows = [
        (kind, rate, told.flops_in(kind) if told else 0.0, "FLOP/s")
        for kind, rate in found.flops_per_second.items()
    ]
    rows.append(("memory", found.bytes_per_second, told.bytes_per_second if told else 0.0, "B/s"))
    columns = [
        Column(found.device, [name for name, *_ in rows], is_text=True),
        Column("measured", [scaled_text(rate, unit) for _, rate, _, unit in rows]),
    ]
    if told is not None:
        sheet = [scaled_text(peak, unit) if peak else "-" for _, _, peak, unit in rows]
        columns.append(Column(told.source, sheet))
        columns.append(Column("share", [percent_text(rate, peak) for _, rate, peak, _ in rows]))
    lines = text_lines(columns, 40)
    lines += [f"not measured: {kind}: {why}" for kind, why in found.skipped.items()]
    return "\n".join(lines)
