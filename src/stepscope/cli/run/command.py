"""What the words after ``stepscope run`` mean: the command to start, and its name."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stepscope.cli.base.command import CommandNotFoundError
from stepscope.errors import StepscopeError
from stepscope.record.inside.boot import target_of

_OF_PYTHON = (".py", ".pyw", ".pyc", ".pyz", ".pyzw")


class Command(NamedTuple):
    words: tuple[str, ...]
    name: str  # for messages
    stem: str  # of the file name of its trace
    folder: Path  # of its own source files

    @staticmethod
    def of(words: Sequence[str]) -> Command:
        """Parse a script, a folder, an archive, options of Python, or any other command."""
        words = words[1:] if words[:1] == ["--"] else words
        if not words:
            raise StepscopeError("there is nothing to run: give a script, -m, -c or a command")
        first = words[0]
        if first.startswith("-"):
            return _of_python(words)
        if os.access(first, os.F_OK):  # unlike Path.exists, for a name of any length
            return _of_python(words) if _is_for_python(Path(first)) else _of_file(words)
        if first.endswith(_OF_PYTHON) or os.sep in first:
            raise StepscopeError(f"the script {first!r} does not exist")
        import shutil  # takes long to import

        # An environment that is not activated has its commands beside its Python.
        beside = str(Path(sys.executable).parent)
        path = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
        executable = shutil.which(first, path=path)
        if executable is None:
            raise CommandNotFoundError(f"there is no script and no command {first!r}")
        name = _name_of([executable, *words[1:]])
        return Command((executable, *words[1:]), name, _stem(name), _folder_of(words, name))


def _of_python(words: Sequence[str]) -> Command:
    target = target_of(["python", *words])
    if words[-1] in ("-m", "-c") and words[-1] == target and words.index(target) == len(words) - 1:
        what = "module" if words[-1] == "-m" else "code"
        raise StepscopeError(f"give the {what} after {words[-1]}")
    if target == "python":
        raise StepscopeError(f"there is nothing to run after {' '.join(words)!r}")
    folder = Path(words[0]).absolute() if not words[0].startswith("-") else Path.cwd()
    if folder.is_file():
        folder = folder.parent
    return Command((sys.executable, *words), target, _stem(target), folder)


def _of_file(words: Sequence[str]) -> Command:
    path = Path(words[0])
    if not os.access(path, os.X_OK):
        raise StepscopeError(f"{words[0]!r} cannot be executed: {os.strerror(errno.EACCES)}")
    first = words[0] if os.sep in words[0] else f"./{words[0]}"
    name = _name_of(words)
    return Command((first, *words[1:]), name, _stem(name), _folder_of(words, name))


def _is_for_python(path: Path) -> bool:
    """Tell whether Python is meant to run a file: also one without suffix or right to execute."""
    if path.is_dir() or path.suffix in _OF_PYTHON:
        return True
    if os.access(path, os.X_OK):
        return False
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except OSError:
        return False
    import zipfile  # rarely needed, and slow to import

    line = start.partition(b"\n")[0]
    is_script = not start.startswith(b"#!") or b"python" in line
    return zipfile.is_zipfile(path) or (is_script and b"\0" not in start)


def _name_of(words: Sequence[str]) -> str:
    """Return the name of the script that a Python command runs, or the command's own name."""
    name = Path(words[0]).name
    if name.startswith(("python", "pypy")) and len(words) > 1:
        return target_of(list(words))
    return name


def _folder_of(words: Sequence[str], name: str) -> Path:
    """Return the folder of the script that a command runs, or else the current one."""
    scripts = [Path(word) for word in words if Path(word).name == name and os.sep in word]
    is_there = bool(scripts) and scripts[0].is_file()
    return scripts[0].absolute().parent if is_there else Path.cwd()


def _stem(name: str) -> str:
    if name in ("-c", "-"):
        return "code"
    return Path(name).stem if name.endswith((*_OF_PYTHON, ".sh")) else name
