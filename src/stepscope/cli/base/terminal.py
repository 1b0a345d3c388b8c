"""The terminal, and the shell command that started us."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def discard_stdout() -> None:
    """Discard buffered output: the reader of our pipe is gone, or the disk is full."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def own_command() -> str:
    """Return the command that calls Stepscope the way it was called now."""
    if Path(sys.argv[0]).name != "stepscope":  # a module, or a program that imports it
        return f"{shlex.quote(_short_name(sys.executable))} -m stepscope"
    return shlex.quote(_short_name(sys.argv[0]))


def _short_name(program: str) -> str:
    """Return the bare name when the shell would find the same program by it."""
    path = Path(program)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    commands = [Path(folder) / path.name for folder in folders]
    runnable = (command for command in commands if command.is_file())
    first = next((command for command in runnable if os.access(command, os.X_OK)), None)
    return path.name if first and path.exists() and path.samefile(first) else program
