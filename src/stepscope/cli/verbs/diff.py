"""``stepscope diff``: what changed between two runs, and whether it is real."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.analysis.compare.model import Diff
    from stepscope.trace.model import Trace

_ROWS = 10
_REPEAT = 5
_WIDTH = 140  # where the output is no terminal


class DiffTraces:
    """Compare two runs: is a step slower, and why.

    BEFORE and AFTER are traces of any format. Several runs per side distinguish a change in the
    program from a change in the machine: give them with --before and --after, or let --run record
    them alternately.
    """

    name = "diff"

    def add_arguments(self, parser: Parser) -> None:
        parser.usage = (
            "stepscope diff [options] BEFORE AFTER\n"
            "       stepscope diff [options] --before TRACE... --after TRACE...\n"
            '       stepscope diff [options] --run "script.py args" --run "other.py args"'
        )
        parser.add_argument("traces", metavar="TRACE", nargs="*", help="one before, one after")
        parser.add_argument("--before", metavar="TRACE", nargs="+", default=[])
        parser.add_argument("--after", metavar="TRACE", nargs="+", default=[])
        parser.add_argument(
            "--run",
            dest="commands",
            metavar="COMMAND",
            action="append",
            default=[],
            help="record this, as `stepscope run COMMAND` does; give it twice to record both "
            "alternately",
        )
        parser.add_argument(
            "--repeat",
            metavar="N",
            type=int,
            default=_REPEAT,
            help=f"how often to record each --run (default: {_REPEAT})",
        )
        parser.add_argument(
            "--keep",
            metavar="FOLDER",
            type=Path,
            help="where the traces of --run go (default: they are removed)",
        )
        parser.add_argument(
            "--least-effect",
            metavar="PERCENT",
            type=float,
            default=1.0,
            help="the smallest change of the step time that matters, in percent (default: 1)",
        )
        parser.add_argument(
            "--row-limit",
            metavar="N",
            type=int,
            default=_ROWS,
            help=f"rows of each table, -1 for all (default: {_ROWS})",
        )
        parser.add_argument("--json", action="store_true", help="print it as JSON instead")
        parser.add_argument(
            "--markdown", action="store_true", help="print it as Markdown, for a pull request"
        )
        parser.add_argument(
            "-o", "--output", metavar="FILE", type=Path, help="also write it as a page: FILE.html"
        )
        parser.add_argument("--force", action="store_true", help="replace FILE when it exists")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.files import check_output

        if args.output is not None:
            if args.output.suffix.lower() != ".html":
                raise StepscopeError(f"{args.output}: the page is one .html file; use that suffix")
            check_output(args.output, force=args.force)
        if not 0 <= args.least_effect < 100:
            raise StepscopeError(f"--least-effect is a percentage, not {args.least_effect:g}")
        compared = _compared(args)
        if args.json:
            print(json_text("diff", compared.to_json()), end="", flush=True)
        else:
            _show(compared, args)
        if args.output is not None:
            from stepscope.report.compare import export_diff_html

            export_diff_html(compared, args.output)
            notify(f"wrote {args.output}")
        return 0


def _compared(args: argparse.Namespace) -> Diff:
    from stepscope.analysis.compare.diff import diff_traces

    least = args.least_effect / 100
    if args.commands:
        from stepscope.cli.base.in_turns import recorded_in_turns

        if args.traces or args.before or args.after:
            raise StepscopeError("--run records both sides: give no traces with it")
        before, after = recorded_in_turns(args.commands, args.repeat, args.keep)
        labels: tuple[list[str], list[str]] = (
            [f"{args.commands[0]} #{i + 1}" for i in range(len(before))],
            [f"{args.commands[1]} #{i + 1}" for i in range(len(after))],
        )
        return diff_traces(before, after, labels=labels, least_effect=least)
    names = _names(args)
    sides = [[_read(name) for name in side] for side in names]
    return diff_traces(sides[0], sides[1], labels=names, least_effect=least)


def _names(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    if args.traces and (args.before or args.after):
        raise StepscopeError("give two traces, or --before and --after, not both")
    if args.traces and len(args.traces) != 2:
        raise StepscopeError(
            f"{len(args.traces)} traces were given: give one before and one after, or several "
            "of each with --before and --after"
        )
    names = ([args.traces[0]], [args.traces[1]]) if args.traces else (args.before, args.after)
    for side, option in zip(names, ("--before", "--after"), strict=True):
        if not side:
            raise StepscopeError(f"there is nothing to compare: give BEFORE and AFTER, or {option}")
    return names


def _read(path: str) -> Trace:
    from stepscope.cli.base.files import read

    return read(path)


def _show(compared: Diff, args: argparse.Namespace) -> None:
    from stepscope.cli.base.printing import print_title
    from stepscope.text.diff import diff_markdown, diff_text

    if args.markdown:
        print(diff_markdown(compared, args.row_limit), end="", flush=True)
        return
    print_title(compared.verdict)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    print(diff_text(compared, args.row_limit, width), flush=True)
