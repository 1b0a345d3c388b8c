"""``stepscope summary``: the table of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.cli._options import add_table_options

if TYPE_CHECKING:
    import argparse

    from stepscope.cli._command import ExitCode, Parser

_ROWS = 30


class Summary:
    """Show where the time of a trace went.

    TRACE is a folder that `stepscope run` wrote, or a trace file of torch.profiler, Kineto or
    Chrome, compressed or not.
    """

    name = "summary"

    def add_arguments(self, parser: Parser) -> None:
        """Declare the options."""
        parser.add_argument("trace", metavar="TRACE")
        add_table_options(parser, _ROWS)
        parser.add_argument(
            "--group-by-overload",
            action="store_true",
            help="tell the overloads of an operator apart",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Print facts and table."""
        from stepscope.cli._files import read
        from stepscope.cli._show import (
            check_sort_by,
            facts,
            headline,
            print_title,
            show_facts,
            table_text,
        )

        check_sort_by(args.sort_by)
        trace = read(args.trace)
        table = table_text(
            trace, args.sort_by, args.row_limit, group_by_overload=args.group_by_overload
        )
        print_title(f"{args.trace}: {headline(trace)}")
        show_facts(list(facts(trace)))
        print(f"\n{table or 'There is nothing in it to sum up.'}".rstrip("\n"), flush=True)
        return 0
