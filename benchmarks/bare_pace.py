"""How long a step of a program takes without Stepscope, with its problem and without.

Run as a script, it imports what a program needs once, and forks for each run: importing a framework
takes longer than many of these programs, and not equally long each time.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from common import timed_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bottleneck_suite import Program

TIMEOUT_S = 600
WARM_UP = 10  # one step of so many is left out: the first ones are slower


@dataclass(frozen=True)
class Pace:
    """The mean time of a step."""

    plain_s: float
    fixed_s: float

    @property
    def gained_s(self) -> float:
        return self.plain_s - self.fixed_s

    @property
    def share(self) -> float:
        return self.gained_s / self.plain_s


def measure_gain(program: Program, python: str, repeats: int) -> Pace:
    """Time whole runs of two lengths: their difference is free of the start and the first steps.

    The longer one has the steps that Stepscope sees: where they get slower and slower, the mean is
    that of the same steps.
    """
    long, short = program.steps, max(2, program.steps // WARM_UP)
    runs = [(fixed, steps) for fixed in (False, True) for steps in (long, short)] * repeats
    times: dict[tuple[bool, int], list[float]] = {}
    for run, taken_s in zip(runs, runs_s(program, python, runs), strict=True):
        times.setdefault(run, []).append(taken_s)

    def step_s(fixed: bool) -> float:
        # The best: whatever else the machine does only makes a run longer.
        lost_s = min(times[fixed, long]) - min(times[fixed, short])
        return lost_s / (long - short)

    return Pace(step_s(False), step_s(True))


def runs_s(program: Program, python: str, runs: Sequence[tuple[bool, int]]) -> list[float]:
    """Return how long bare runs take: with the problem taken out or not, and of so many steps."""
    # What a program sets in its environment may be read while its packages are imported.
    needs = () if "os.environ[" in program.text else program.needs
    done = subprocess.run(
        [python, __file__, str(program.path), json.dumps(runs), *needs],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )
    parsed: list[float] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def run_forked(path: Path, fixed: bool, steps: int) -> None:
    """Run a program in a fork of this process, in an empty folder; what it prints is dropped."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.environ.update(STEPS=str(steps), FIXED=str(int(fixed)))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            sys.argv, sys.path[0] = [str(path)], str(path.parent)
            status = 1
            try:
                runpy.run_path(str(path), run_name="__main__")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status:
            fixed_or_not = "FIXED=1" if fixed else "its problem"
            raise SystemExit(f"{path} with {fixed_or_not} and {steps} steps failed")


def main(path: Path, runs: list[tuple[bool, int]], needs: Sequence[str]) -> None:
    """Print how long each run takes, as JSON."""
    for name in needs:
        importlib.import_module(name)
    print(json.dumps([timed_s(partial(run_forked, path, *run)) for run in runs]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
