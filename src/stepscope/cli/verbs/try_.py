"""``stepscope try``: changes a program in trial, and claims what was measured."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.errors import StepscopeError

_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
_DEFAULT_S = 180.0


class Try:
    """Try what may make a program faster, and say what was measured.

    The program is run unmodified until its steps are seen; then it is run with one change at a
    time, in turns with itself, on copies of its files. What is faster and computes the same is
    combined, written as try.diff, and the patched program is measured once more: that gain is
    printed. Files that the program writes, processes that it starts and what it prints stay
    inside, and the network is out of its reach. Nothing of yours is changed without --apply.
    """

    name = "try"

    def add_arguments(self, parser: Parser) -> None:
        parser.usage = (
            "stepscope try [options] script.py [args...]\n"
            "       stepscope try [options] -m module [args...]\n"
            "       stepscope try --apply [-o PATCH]"
        )
        options = [
            parser.add_argument(
                "--budget",
                metavar="TIME",
                type=budget,
                default=_DEFAULT_S,
                help="how long to try: 90s, 3m, 1h (default: 3m)",
            ),
            parser.add_argument(
                "-o",
                "--output",
                metavar="PATCH",
                type=Path,
                default=Path("try.diff"),
                help="where the patch goes (default: try.diff)",
            ),
            parser.add_argument(
                "--apply", action="store_true", help="apply the patch of an earlier trial"
            ),
            parser.add_argument(
                "--allow-network",
                action="store_true",
                help="let each run of the program use the network",
            ),
            parser.add_argument("--json", action="store_true", help="print one JSON object"),
        ]
        parser.leave_the_rest("program", options)

    def run(self, args: argparse.Namespace) -> ExitCode:
        if args.apply and not args.program:
            return apply_patch(args.output)
        from stepscope.cli.run.command import Command
        from stepscope.remedies.arms import Program
        from stepscope.remedies.text import as_json, as_text
        from stepscope.remedies.trial import Trial

        command = Command.of(args.program)
        with tempfile.TemporaryDirectory(
            prefix="stepscope-try-", ignore_cleanup_errors=True
        ) as home:
            program = Program.of(
                command.words, command.folder, Path(home), network=args.allow_network
            )
            progress = ProgressLine()
            try:
                result = Trial(program, args.budget, progress).run()
            finally:
                progress.clear()
        if result.patch:
            with args.output.open("w", encoding="utf-8", newline="") as file:
                file.write(result.patch)
        if args.json:
            print(json_text("try", as_json(result, command.name)), end="")
        else:
            print(as_text(result, command.name, args.output))
        if args.apply and result.patch:
            return apply_patch(args.output)
        return 0


class ProgressLine:
    """One line on a terminal that is written over; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._is_shown:
            print(f"\r\x1b[Ktrying: {text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def budget(text: str) -> float:
    """Return the seconds that a text like 90s, 3m or 1h30m stands for."""
    match = _BUDGET.fullmatch(text)
    seconds = 0.0
    if match:
        hours, minutes, rest = (int(part or 0) for part in match.groups())
        seconds = 3600.0 * hours + 60.0 * minutes + rest
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: use 90s, 3m or 1h")
    return seconds


def apply_patch(patch: Path) -> ExitCode:
    """Apply a patch to the files that it names, below this folder."""
    import subprocess

    if not patch.is_file():
        raise StepscopeError(f"{patch} does not exist: `stepscope try COMMAND` writes it")
    try:
        done = subprocess.run(
            ["git", "apply", str(patch.absolute())], capture_output=True, check=False
        )
    except FileNotFoundError:
        raise StepscopeError("git is needed to apply a patch, and was not found") from None
    if done.returncode:
        raise StepscopeError(f"{patch} does not apply: {done.stderr.decode().strip()}")
    print(f"applied {patch}")
    return 0
