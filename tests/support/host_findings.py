"""What the tests of findings about the host share: loops of training, and what is found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.findings import find_problems
from stepscope.trace.model import ThreadState, WaitReason
from training_program import (
    LOOP,
    MODULE_CALL,
    STEPS,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.analysis.findings import Finding
    from training_program import Stack

    Work = Callable[[Program], None]

PYTHON, NATIVE, GIL = ThreadState.PYTHON, ThreadState.NATIVE, ThreadState.GIL
BLOCKED = ThreadState.BLOCKED

PREPARE = (*LOOP, "train.py(5): prepare")
READS = (*LOOP, "train.py(30): accuracy")
EVALUATES = (*LOOP, "train.py(16): step", "train.py(40): evaluate")
TEACHER = (*LOOP, "train.py(11): step", MODULE_CALL, "teacher.py(3): Teacher.forward")
LOADER = (*LOOP, "torch/utils/data/dataloader.py(1): __next__")
SLEEP = (*PREPARE, "<native call time.sleep>")
SAVE = (*PREPARE, "torch/serialization.py(1): save")
QUEUE = (*PREPARE, "queue.py(1): Queue.get", "threading.py(1): Condition.wait")


def problems_of(program: Program) -> list[Finding]:
    with shared_analyses():
        return find_problems(program.trace())


def finding_of(program: Program, problem: str) -> Finding | None:
    return next((finding for finding in problems_of(program) if finding.id == problem), None)


def assert_found(program: Program, problem: str, line: str, saves_ns: float) -> Finding:
    """Find a problem, its line, and what a step would save."""
    finding = finding_of(program, problem)
    assert finding is not None
    place = finding.places[0]
    assert f"{place.file}:{place.line}" == line
    assert finding.saves_ns == pytest.approx(saves_ns, rel=0.01)
    return finding


def training(
    before: Work,
    *,
    steps: int = STEPS,
    only: Sequence[int] | None = None,
    parallelism: Mapping[str, float] | None = None,
) -> Program:
    """Return a program that does something before each step, or only before some of them."""
    program = Program(parallelism)
    for number in range(steps):
        if only is None or number in only:
            before(program)
        program.step()
    return program


def spend(stack: Stack, state: ThreadState, ns: int, wait: WaitReason = WaitReason.UNKNOWN) -> Work:
    return lambda program: program.sample(stack, state, ns, wait=wait)


def nothing(_: Program) -> None:
    """Do nothing besides training."""
