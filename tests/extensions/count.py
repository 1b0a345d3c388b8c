"""A verb: how many events a trace has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import read_trace
from stepscope.cli import COMMANDS

if TYPE_CHECKING:
    import argparse

    from stepscope.cli import Parser


class Count:
    """Tell how many events a trace has.

    TRACE is of any format.
    """

    name = "count"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        parser.add_argument("--named", metavar="NAME", help="only those of that name")

    def run(self, args: argparse.Namespace) -> int:
        names = list(read_trace(args.trace).names())
        print(len(names) if args.named is None else names.count(args.named))
        return 0


COMMANDS.register(Count())
