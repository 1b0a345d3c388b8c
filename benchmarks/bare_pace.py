"""How long a step of a program takes without Stepscope, with its problem and without."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common import timed_s

if TYPE_CHECKING:
    from bottleneck_suite import Program

TIMEOUT_S = 300
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
    """Time whole runs of two lengths: their difference is free of imports and of the first steps.

    The longer one has the steps that Stepscope sees: where they get slower and slower, the mean is
    that of the same steps.
    """
    long, short = program.steps, max(2, program.steps // WARM_UP)
    times: dict[tuple[bool, int], list[float]] = {}
    for _ in range(repeats):
        for fixed in (False, True):
            for steps in (long, short):
                taken_s = run_s(program, python, steps, fixed)
                times.setdefault((fixed, steps), []).append(taken_s)

    def step_s(fixed: bool) -> float:
        # The best: whatever else the machine does only makes a run longer.
        lost_s = min(times[fixed, long]) - min(times[fixed, short])
        return lost_s / (long - short)

    return Pace(step_s(False), step_s(True))


def run_s(program: Program, python: str, steps: int, fixed: bool) -> float:
    """Return how long a bare run takes, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        return timed_s(
            lambda: subprocess.run(
                [python, str(program.path)],
                cwd=folder,
                env={**os.environ, "STEPS": str(steps), "FIXED": str(int(fixed))},
                capture_output=True,
                check=True,
                timeout=TIMEOUT_S,
            )
        )
