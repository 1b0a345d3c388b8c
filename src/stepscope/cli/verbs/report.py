"""``stepscope report``: a trace as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.options import rank_limit
from stepscope.errors import StepscopeError
from stepscope.notices import notify

_RANKS = 4


class MakeReport:
    """Write a trace as one HTML file that opens offline.

    The page shows the steps, the timeline, operators, modules, stacks, memory, and findings with
    their fixes. It needs no network and no other file. TRACE is a folder that `stepscope run`
    wrote, or a trace file of torch.profiler, Kineto, HTA or Paddle. For a folder with the traces
    of many ranks, it writes a page about all of them, and reports of single ranks beside it.
    """

    name = "report"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        parser.add_argument(
            "-o", "--output", metavar="FILE", type=Path, help="default: beside TRACE, as .html"
        )
        parser.add_argument("--force", action="store_true", help="replace FILE when it exists")
        parser.add_argument(
            "--no-source",
            action="store_true",
            help="leave your source code out of the page",
        )
        parser.add_argument(
            "--source",
            metavar="FOLDER",
            type=Path,
            action="append",
            default=[],
            help="another folder whose source text the page may show; TRACE's folder and the "
            "current one are always allowed (may be repeated)",
        )
        parser.add_argument(
            "--ranks",
            metavar="N",
            type=rank_limit,
            default=_RANKS,
            help="for a folder of ranks: how many ranks get a report of their own, those that "
            f"arrive latest first: a number, all or none (default: {_RANKS})",
        )
        parser.add_argument("--open", action="store_true", help="open it in the browser")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.files import (
            REPORT_SUFFIX,
            check_output,
            read,
            report_beside,
            write_report,
        )
        from stepscope.cli.base.rank_launch import is_job
        from stepscope.cli.base.terminal import size_on_disk
        from stepscope.units import size_text

        output = args.output or report_beside(Path(args.trace))
        if output.suffix.lower() != REPORT_SUFFIX:
            raise StepscopeError(f"{output}: a report is one {REPORT_SUFFIX} file; use that suffix")
        check_output(output, force=args.force)
        if is_job(args.trace):
            from stepscope.cli.base.job_answer import report_job

            report_job(args, output)
            _open(output, args)
            return 0
        title = Path(args.trace).absolute().name
        folders = [Path(args.trace).absolute().parent, Path.cwd(), *args.source]
        contents = write_report(
            read(args.trace), output, title=title, source=[] if args.no_source else folders
        )
        notify(f"wrote {output}: {contents}, {size_text(size_on_disk(output))}")
        _open(output, args)
        return 0


def _open(output: Path, args: argparse.Namespace) -> None:
    if args.open:
        import webbrowser

        webbrowser.open(output.absolute().as_uri())
