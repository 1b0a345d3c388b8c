"""``stepscope history``: step time and memory over many runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.history.changes import History
    from stepscope.history.runs import Run

_PAGE = "stepscope-history.html"


class ShowHistory:
    """Show step time and memory over many runs.

    FOLDER holds traces of any format; traces from `stepscope run` contain their git commit. Runs
    are ordered by commit where git knows the commits here, otherwise by time. A change has to last:
    three runs before it and three after it differ by more than the runs vary.
    """

    name = "history"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            type=Path,
            default=Path(_PAGE),
            help=f"where the page goes (default: {_PAGE})",
        )
        parser.add_argument("--branch", metavar="NAME", help="only runs of this branch")
        parser.add_argument(
            "--repository",
            metavar="FOLDER",
            type=Path,
            default=Path(),
            help="the git repository that knows the commits (default: the current folder)",
        )
        parser.add_argument("--json", action="store_true", help="print it as JSON instead")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.history.changes import history_of
        from stepscope.history.runs import by_program, in_order
        from stepscope.history.text import history_text

        if args.output.suffix.lower() != ".html":
            raise StepscopeError(f"{args.output}: the page is one .html file; use that suffix")
        runs = _runs(args)
        histories = [
            history_of(program, *in_order(mine, args.repository))
            for program, mine in by_program(runs).items()
        ]
        _write(histories, args.output, " ".join(map(str, args.folders)))
        if args.json:
            document = {"programs": [history.to_json() for history in histories]}
            print(json_text("history", document), end="", flush=True)
            return 0
        print("\n\n".join(history_text(history) for history in histories))
        print(f"\npage  {args.output.absolute().as_uri()}", flush=True)
        return 0


def _runs(args: argparse.Namespace) -> list[Run]:
    """Read all traces, one after the other; what cannot be read is said and left out."""
    from stepscope.cli.base.files import read
    from stepscope.cli.base.runs import paths_of
    from stepscope.history.runs import run_of

    runs: list[Run] = []
    others = 0
    for path in paths_of(args.folders):
        try:
            trace = read(str(path))
        except StepscopeError as error:
            notify(f"left out: {error}")
            continue
        if trace.info.rank not in (None, 0):
            others += 1  # the first rank stands for its job
            continue
        made = run_of(trace, str(path))
        if args.branch is None or made.branch == args.branch:
            runs.append(made)
    if not runs:
        of = f" of the branch {args.branch}" if args.branch is not None else ""
        raise StepscopeError(f"{args.folders[0]}: there is no run{of} that can be read")
    if others:
        notify(f"left out: {others} traces of other ranks than the first")
    return runs


def _write(histories: list[History], path: Path, title: str) -> None:
    from stepscope.history.page import history_html

    try:
        path.write_text(history_html(histories, f"History of {title}"), encoding="utf-8")
    except OSError as error:
        raise StepscopeError(f"{path}: {error.strerror}") from None
