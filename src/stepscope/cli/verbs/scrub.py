"""``stepscope scrub``: a trace that can be sent to others."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.notices import notify
from stepscope.trace.placing import TRACE_SUFFIX


class Scrub:
    """Write a trace that names no host, user, file or folder.

    Files of yours become file1.py, file2.py and so on; those of libraries are named from the
    library on. Metadata is left out. Names of functions, modules and ranges stay: they are what a
    trace is about. TRACE is any trace that can be read; the suffix of FILE picks the format, as for
    `stepscope export`.
    """

    name = "scrub"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            type=Path,
            help="default: beside TRACE, as NAME-scrubbed.stepscope",
        )
        parser.add_argument("--force", action="store_true", help="replace FILE when it exists")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.files import check_output, read, write
        from stepscope.cli.base.terminal import size_on_disk
        from stepscope.formats.scrub import scrub
        from stepscope.units import count_text, size_text

        output = args.output or _scrubbed_beside(Path(args.trace))
        check_output(output, force=args.force)
        done = scrub(read(args.trace))
        write(done.trace, output, force=args.force)
        gone = ", ".join(
            (
                count_text(done.files, "file"),
                count_text(done.hosts, "host"),
                count_text(done.users, "user"),
            )
        )
        notify(f"wrote {output} ({size_text(size_on_disk(output))}), without the names of {gone}")
        return 0


def _scrubbed_beside(trace: Path) -> Path:
    name = trace.name.removesuffix(".gz").removesuffix(".json").removesuffix(".pb")
    return trace.with_name(f"{name.removesuffix(TRACE_SUFFIX)}-scrubbed{TRACE_SUFFIX}")
