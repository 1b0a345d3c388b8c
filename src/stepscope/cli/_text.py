"""Numbers and commands as people read them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def duration_text(ns: float) -> str:
    """Return a time with three digits that count, in the unit that suits it."""
    return _with_unit(ns, _TIME_UNITS)


def size_text(size_bytes: float) -> str:
    """Return a size with three digits that count, in the unit that suits it."""
    return _with_unit(size_bytes, _SIZE_UNITS)


def count_text(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 step``, ``12,345 steps``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def discard_stdout() -> None:
    """Let what is still in the buffer go nowhere: whoever read our output has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def own_command() -> str:
    """Return what the user types to call Stepscope as it was called now."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(_short_name(sys.executable))} -m stepscope"
    return shlex.quote(_short_name(sys.argv[0]))


def _short_name(program: str) -> str:
    """Return the bare name when the shell would find the same program by it."""
    name = Path(program).name
    found = shutil.which(name)
    path = Path(program)
    return name if found and path.exists() and path.samefile(found) else program


def _with_unit(value: float, units: tuple[tuple[str, float], ...]) -> str:
    # As if rounded already: 999.9 ms is 1.00 s.
    unit, size = next((u for u in units if value >= 0.9995 * u[1]), units[-1])
    scaled = value / size
    decimals = 0 if size == 1 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:,.{decimals}f} {unit}"
