"""``stepscope export``: a trace in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.notices import notify


class Export:
    """Write a trace in another format.

    TRACE is a folder that `stepscope run` wrote, or a trace file of torch.profiler, Kineto,
    Chrome or Perfetto. The suffix of FILE picks the format: .pftrace for Perfetto, .json for
    Chrome, TensorBoard and HTA, .speedscope.json for speedscope, .firefox.json for the Firefox
    Profiler, .pprof for pprof, .folded for flame graphs, .otlp.json for OpenTelemetry spans,
    .parquet and .csv for tables, .stepscope for our own folder of Arrow files. Add .gz to compress
    the file.
    """

    name = "export"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True)
        parser.add_argument("--force", action="store_true", help="replace FILE when it exists")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.files import check_output, read, write
        from stepscope.cli.base.terminal import size_on_disk
        from stepscope.units import count_text, size_text

        check_output(args.output, force=args.force)
        trace = read(args.trace)
        write(trace, args.output, force=args.force)
        size = size_text(size_on_disk(args.output))
        notify(f"wrote {args.output}: {count_text(len(trace), 'event')}, {size}")
        return 0
