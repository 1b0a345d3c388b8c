"""``stepscope ps``: lists the programs that can be asked from outside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stepscope.cli.json_output import json_line
from stepscope.units import duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from stepscope.cli.command import ExitCode, Parser

_RECORDING = {"": "nothing", "all": "everything", "ring": "the last of it"}


class Ps:
    """List your programs that run under Stepscope.

    These are the programs under `stepscope run`, with STEPSCOPE=run in their environment, or with
    a call of stepscope.serve(). Only your own are shown.
    """

    name = "ps"

    def add_arguments(self, parser: Parser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="print one JSON object a line")

    def run(self, args: argparse.Namespace) -> ExitCode:
        """Print them."""
        show_living(as_json=args.json)
        return 0


def show_living(*, as_json: bool) -> None:
    """Print the programs that run now, with their ranks."""
    from stepscope.live.client import living

    found = living()
    if as_json:
        for each in found:
            print(json_line("program", each), end="")
        return
    if not found:
        print("no program of yours runs under stepscope")
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("PID", "RANK", "JOB", "SINCE", "MEMORY", "RECORDS", "PROGRAM"):
        table.add_column(title, overflow="fold", no_wrap=title != "PROGRAM")
    for each in found:
        table.add_row(*_row(each))
    _print(table)


def _row(told: dict[str, Any]) -> tuple[str, ...]:
    rank = f"{told['rank']}/{told['world_size']}" if told["rank"] else "-"
    since = duration_text(max(time.time() - told["since"], 0) * 1e9)
    memory = size_text(told["memory_bytes"])
    recording = _RECORDING.get(told["recording"], told["recording"])
    return str(told["pid"]), rank, told["job"] or "-", since, memory, recording, told["program"]


def _print(table: Any) -> None:
    from rich.console import Console

    Console().print(table)
