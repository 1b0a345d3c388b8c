"""Run the programs that print their own truth, and compare what `stepscope run` says of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .catalog import PROGRAMS, Program, is_at_hand
from .figures import Figure, compare
from .recording import ProgramFailedError, record

if TYPE_CHECKING:
    from collections.abc import Iterator

RIGHT_AT_LEAST = 0.98
# It ends when the runner does, however that ended.
BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""


def main() -> int:
    options = _options()
    figures: list[Figure] = []
    failed = []
    with busy_processes(options.busy):
        for program in _chosen(options.programs, options.every):
            python = _python_for(program, options.paddle_python)
            if python is None:
                print(f"{program.name}: left out, {program.package} is not installed", flush=True)
                continue
            try:
                with tempfile.TemporaryDirectory() as folder:
                    recording = record(program, Path(folder), python)
                compared = compare(program, recording)
            except ProgramFailedError as error:
                print(f"{program.name}: {error}", flush=True)
                failed.append(program.name)
                continue
            figures += compared
            for figure in compared:
                if options.all or not figure.is_right:
                    print(_row(figure), flush=True)
    return _score(figures, failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("programs", nargs="*", help="names, or parts of names (default: all)")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside N busy processes")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth program")
    parser.add_argument("--all", action="store_true", help="show right figures, too")
    parser.add_argument("--paddle-python", metavar="PATH", help="the Python that has Paddle")
    return parser.parse_args()


def _chosen(names: list[str], every: int) -> list[Program]:
    chosen = [one for one in PROGRAMS if not names or any(name in one.name for name in names)]
    return chosen[::every]


def _python_for(program: Program, paddle_python: str | None) -> str | None:
    if program.package == "paddle" and paddle_python:
        return paddle_python
    return sys.executable if is_at_hand(program.package) else None


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep that many cores busy meanwhile."""
    command = [sys.executable, "-c", BUSY, str(os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _row(figure: Figure) -> str:
    verdict = "right" if figure.is_right else "FAR OFF" if figure.is_far_off else "off"
    off_by = "-" if figure.off_by == float("inf") else f"{figure.off_by:.1%}"
    return (
        f"{figure.program:36} {figure.name:40} truth {figure.truth:>12}  told {figure.answer:>12}"
        f"  off by {off_by:>7}  {verdict}"
    )


def _score(figures: list[Figure], failed: list[str]) -> int:
    right = sum(figure.is_right for figure in figures)
    far_off = sum(figure.is_far_off for figure in figures)
    programs = len({figure.program for figure in figures})
    share = right / len(figures) if figures else 0.0
    print(f"{right} of {len(figures)} figures of {programs} programs are right ({share:.1%});")
    print(f"{far_off} are off by more than 10 points; failed: {', '.join(failed) or 'none'}")
    return int(share < RIGHT_AT_LEAST or far_off > 0 or bool(failed))


if __name__ == "__main__":
    sys.exit(main())
