"""``stepscope top``: what a running program does, on a screen that refreshes."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_line

if TYPE_CHECKING:
    from stepscope.cli.base.top_screen import Looked

_LOOK_S = 2.0
_ANSWER_S = 60.0


class Top:
    """Show live where the time of a running program goes.

    Step time and where it goes, how busy the devices are, memory, and the hottest lines. The
    program is recorded for two seconds at a time; the analysis runs in this process, not in the
    program. Ctrl-C closes the screen; the program keeps running.
    """

    name = "top"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("pid", metavar="PID", type=int, help="as `stepscope ps` lists it")
        parser.add_argument("--once", action="store_true", help="print one screen, and end")
        parser.add_argument("--json", action="store_true", help="print one answer as JSON, and end")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from rich.console import Console

        from stepscope.cli.base.top_screen import screen
        from stepscope.private_folders import new_private_folder

        folder = new_private_folder("top-")
        try:
            if args.json:
                looked = _looked(args.pid, folder)
                document = {**looked.status, "answer": looked.answer.to_json()}
                print(json_line("program", document), end="")
                return 0
            console = Console()
            if args.once or not console.is_terminal:
                console.print(screen(_looked(args.pid, folder)))
                return 0
            return _refresh(console, args.pid, folder)
        except KeyboardInterrupt:
            return 0
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _refresh(console: Any, pid: int, folder: Path) -> ExitCode:
    from rich.live import Live

    from stepscope.cli.base.top_screen import screen
    from stepscope.errors import StepscopeError

    looked = _looked(pid, folder)
    ended = ""
    with Live(screen(looked), console=console, screen=True) as live:
        while not ended:
            try:
                looked = _looked(pid, folder)
            except StepscopeError as error:
                ended = str(error)
            live.update(screen(looked))
    console.print(screen(looked))
    console.print(ended)
    return 0


def _looked(pid: int, folder: Path) -> Looked:
    from stepscope.analysis.answer import answer
    from stepscope.cli.base.top_screen import Looked
    from stepscope.formats import read_trace
    from stepscope.live.client import ask

    path = folder / "look.stepscope"
    shutil.rmtree(path, ignore_errors=True)
    request = {"do": "capture", "seconds": _LOOK_S, "path": str(path), "reason": "top"}
    ask(pid, {**request, "quiet": True}, _ANSWER_S)
    status = dict(ask(pid, {"do": "steps"}))
    trace = read_trace(path)
    return Looked(status, answer(trace), trace)
