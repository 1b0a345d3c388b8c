"""``stepscope ps``: the programs that can be asked from outside, and what dead ones have left."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from stepscope.cli.json_output import json_line
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.units import duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from stepscope.cli.command import ExitCode, Parser
    from stepscope.record.stream.leftovers import Leftover

_RECORDING = {"": "nothing", "all": "everything", "ring": "the most recent part"}


class Ps:
    """List your programs that run under Stepscope.

    These are the programs under `stepscope run`, with STEPSCOPE=run in their environment, or with
    a call of stepscope.serve(); and what dead ones have left. Only your own are shown.

    With --dead, recordings of dead programs that nobody has sealed, because `stepscope run` was
    killed as well, are sealed where their traces would be, and their memory is freed. Nothing that
    belongs to a running program is touched.
    """

    name = "ps"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object a line")
        parser.add_argument(
            "--dead",
            action="store_true",
            help="seal and remove what killed programs left behind",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        if args.dead:
            clean_dead()
            return 0
        show_living(as_json=args.json)
        if not args.json:
            show_dead()
        return 0


def show_dead() -> None:
    from stepscope.record.stream.leftovers import leftovers

    found = leftovers()
    for each in found:
        print(f"{_left_by(each)}: ended abnormally, not sealed: {each.folders.disk}")
    if found:
        print("`stepscope ps --dead` seals them and frees the memory")


def clean_dead() -> None:
    from stepscope.record.stream.leftovers import leftovers

    found = leftovers()
    for each in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            try:
                trace = each.clean()
            except StepscopeError as error:
                print(f"{_left_by(each)}: {error}")
                continue
        print(f"{_left_by(each)}: {f'sealed {trace}' if trace else 'removed'}")
    if not found:
        print("no program has left anything")


def _left_by(each: Leftover) -> str:
    return f"{each.program}, process {each.pid} ({size_text(each.bytes)} of memory)"


def show_living(*, as_json: bool) -> None:
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
