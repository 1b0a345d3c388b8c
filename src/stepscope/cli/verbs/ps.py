"""``stepscope ps``: the programs that can be asked from outside, and what dead ones have left."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_line
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.units import duration_text, size_text

if TYPE_CHECKING:
    from stepscope.record.read_back.leftovers import Leftover

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
    from stepscope.record.read_back.leftovers import leftovers

    dead = leftovers()
    for leftover in dead:
        print(f"{_left_by(leftover)}: ended abnormally, not sealed: {leftover.folders.disk}")
    if dead:
        print("`stepscope ps --dead` seals them and frees the memory")


def clean_dead() -> None:
    from stepscope.record.read_back.leftovers import leftovers

    dead = leftovers()
    for leftover in dead:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            try:
                trace = leftover.clean()
            except StepscopeError as error:
                print(f"{_left_by(leftover)}: {error}")
                continue
        print(f"{_left_by(leftover)}: {f'sealed {trace}' if trace else 'removed'}")
    if not dead:
        print("no program has left anything")


def _left_by(leftover: Leftover) -> str:
    return f"{leftover.program}, process {leftover.pid} ({size_text(leftover.bytes)} of memory)"


def show_living(*, as_json: bool) -> None:
    from stepscope.live.client import living

    programs = living()
    if as_json:
        for program in programs:
            print(json_line("program", program), end="")
        return
    if not programs:
        print("no program of yours runs under stepscope")
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("PID", "RANK", "JOB", "SINCE", "MEMORY", "RECORDS", "PROGRAM"):
        table.add_column(title, overflow="fold", no_wrap=title != "PROGRAM")
    for program in programs:
        table.add_row(*_row(program))
    _print(table)


def _row(program: dict[str, Any]) -> tuple[str, ...]:
    rank = f"{program['rank']}/{program['world_size']}" if program["rank"] else "-"
    since = duration_text(max(time.time() - program["since"], 0) * 1e9)
    memory = size_text(program["memory_bytes"])
    recording = _RECORDING.get(program["recording"], program["recording"])
    return (
        str(program["pid"]),
        rank,
        program["job"] or "-",
        since,
        memory,
        recording,
        program["program"],
    )


def _print(table: Any) -> None:
    from rich.console import Console

    Console().print(table)
