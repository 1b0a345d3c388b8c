"""Made GPU traces with one planted problem each: the first finding is that problem.

The whole set, with real traces, is graded by ``benchmarks/graded_traces.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.analysis.findings import Severity, find_problems
from stepscope.formats import read_trace
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def graded(request: pytest.FixtureRequest) -> ModuleType:
    """Return the benchmark as a module."""
    sys.path.insert(0, str(BENCHMARKS))
    request.addfinalizer(lambda: sys.path.remove(str(BENCHMARKS)))
    import graded_traces

    return graded_traces


@pytest.fixture(scope="module")
def made(graded: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    files: list[Path] = graded.make_all(tmp_path_factory.mktemp("made"))
    return files


def test_the_planted_problem_comes_first_and_nothing_else_is_high(
    graded: ModuleType, made: list[Path]
) -> None:
    grades = graded.graded(made)
    assert len(grades) == len(made) >= 40
    wrong = {item.expected.name: item.first for item in grades if not item.is_right}
    assert not wrong
    assert not {item.expected.name: item.wrong_high for item in grades if item.wrong_high}


def test_a_wrong_answer_is_seen(graded: ModuleType, made: list[Path]) -> None:
    """What is right of one trace is wrong of another."""
    (healthy,) = [path for path in made if path.name.startswith("healthy_training")]
    (planted,) = [path for path in made if path.name.startswith("exposed_nccl")]
    trace = read_trace(planted)
    assert isinstance(trace, Trace)
    findings = tuple(find_problems(trace))
    assert findings[0].severity is Severity.HIGH
    expected = next(iter(graded.graded([healthy]))).expected
    grade = graded.Grade(expected, findings)
    assert not grade.is_right
    assert grade.wrong_high == ("exposed-communication",)
