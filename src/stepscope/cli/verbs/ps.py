"""``stepscope ps``: programs that are recorded, and what dead ones have left."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from stepscope.cli.streams import say
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.record.stream.leftovers import leftovers
from stepscope.units import size_text

if TYPE_CHECKING:
    import argparse

    from stepscope.cli.command import ExitCode, Parser


class Ps:
    """List what programs have left that ended by force, and clean it up.

    With --dead, what a program left whose watcher was killed, too, is sealed where the program was
    to write its trace, and its memory is freed. What belongs to a living program is not touched.
    """

    name = "ps"

    def add_arguments(self, parser: Parser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--dead",
            action="store_true",
            help="seal and remove what programs left that ended by force",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Do it."""
        return show_dead(clean=args.dead)


def show_dead(*, clean: bool) -> int:
    """List the leftovers of dead programs, or clean them up; return the exit code."""
    found = leftovers()
    for each in found:
        what = f"{each.program}, process {each.pid} ({size_text(each.bytes)} of memory)"
        if not clean:
            say(f"{what}: ended, not sealed: {each.folders.disk}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            try:
                trace = each.clean()
            except StepscopeError as error:
                say(f"{what}: {error}")
                continue
        say(f"{what}: {f'sealed {trace}' if trace else 'removed'}")
    if not found:
        say("no program has left anything")
    elif not clean:
        say("`stepscope ps --dead` seals and removes them")
    return 0
