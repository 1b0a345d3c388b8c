"""Two programs recorded alternately, so that both see the same conditions of the machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.files import read
from stepscope.errors import StepscopeError
from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

_SIDES = ("before", "after")


def recorded_in_turns(
    commands: Sequence[str], repeat: int, keep: Path | None
) -> tuple[list[Trace], list[Trace]]:
    """Record both commands ``repeat`` times each, in turns, and return the traces.

    Which of them goes first changes from turn to turn: what warms the machine up helps both.
    """
    if len(commands) != len(_SIDES):
        raise StepscopeError(f"--run was given {len(commands)} times: give one before, one after")
    if repeat < 1:
        raise StepscopeError(f"--repeat {repeat}: each side needs at least one run")
    words = [_words(command) for command in commands]
    traces: tuple[list[Trace], list[Trace]] = ([], [])
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for turn in range(repeat):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                path = folder / f"{_SIDES[side]}-{turn + 1}.stepscope"
                if path.exists():
                    raise StepscopeError(f"{path} exists already: choose another --keep folder")
                notify(f"run {turn + 1} of {repeat}, {_SIDES[side]}: {commands[side]}")
                _record(words[side], path)
                traces[side].append(read(str(path)))
    return traces


def _words(command: str) -> list[str]:
    """Return the program and its arguments as `stepscope run` takes them."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise StepscopeError(f"--run {command!r}: {error}") from None
    if words and Path(words[0]).name.removesuffix(".exe").rstrip("0123456789.") == "python":
        words = words[1:]
    if not words:
        raise StepscopeError(f"--run {command!r} names no program: give `script.py args`")
    return words


def _record(words: list[str], path: Path) -> None:
    """Record a program in a process of its own; its output goes to standard error."""
    command = [sys.executable, "-m", "stepscope", "run", "--quiet", "-o", str(path), *words]
    done = subprocess.run(command, stdout=sys.stderr.fileno(), check=False)
    if not path.exists():
        raise StepscopeError(f"`{shlex.join(words)}` was not recorded: it ended with status "
                             f"{done.returncode}")  # fmt: skip
    if done.returncode:
        notify(f"`{shlex.join(words)}` ended with status {done.returncode}")
