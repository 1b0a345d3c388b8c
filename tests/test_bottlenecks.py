"""The bottleneck suite states its facts, and Stepscope's answers to some of it are right."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bottleneck_suite import NOTHING, Program, guilty_lines, programs
from command_line import python, stepscope_run

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = programs()
PLANTED = [program for program in PROGRAMS if not program.is_healthy]
HEALTHY = [program for program in PROGRAMS if program.is_healthy]

# Ids of findings that a program may name; every one of the first group is planted at least twice.
PLANTED_TWICE = {
    "autograd-in-inference",
    "checkpoint-every-step",
    "data-in-loop",
    "data-loading",
    "evaluation-every-step",
    "float64",
    "garbage-collection",
    "gil-contention",
    "graph-kept",
    "library-call",
    "logging",
    "memory-growth",
    "programs-started",
    "python-work",
    "redundant-copies",
    "scalar-reads",
    "slowing-steps",
    "tensors-from-lists",
    "tiny-operators",
    "too-many-threads",
    "waiting-io",
    "waiting-lock",
    "waiting-sleep",
    "work-without-gradient",
}
KNOWN = PLANTED_TWICE | {
    *("recompilations", "unfused-optimizer", "processes-started", "workers-started"),
    "writing-in-loop",
}
PACKAGES = {"accelerate", "lightning", "numpy", "paddle", "pandas", "PIL", "tensorboard", "torch"}

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
each_planted = pytest.mark.parametrize("program", PLANTED, ids=lambda program: program.name)


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 48
    assert len(HEALTHY) >= 14
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_every_problem_is_planted_twice() -> None:
    counts = Counter(program.problems[0] for program in PLANTED)
    assert {problem for problem in PLANTED_TWICE if counts[problem] < 2} == set()


def test_those_with_a_problem_and_those_without_are_told_apart_by_their_folder() -> None:
    assert {program.path.parent.name for program in PLANTED} == {"planted"}
    assert {program.path.parent.name for program in HEALTHY} == {"healthy"}


@each_program
def test_a_program_states_its_facts(program: Program) -> None:
    compile(program.text, str(program.path), "exec")
    assert {"Problem", "Needs"} <= program.facts.keys()
    assert set(program.problems) <= KNOWN
    assert set(program.needs) <= PACKAGES
    assert program.steps > 0


@each_program
def test_a_program_imports_what_it_says(program: Program) -> None:
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(ast.parse(program.text))
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(ast.parse(program.text))
        if isinstance(node, ast.ImportFrom)
    }
    if "torch.utils.tensorboard" in program.text:
        imported.add("tensorboard")
    names_seen = set(program.needs)
    assert names_seen <= imported
    # NumPy comes with each of the others.
    assert (imported & PACKAGES) - names_seen <= ({"numpy"} if names_seen else set())
    assert "stepscope" not in imported


@each_planted
def test_a_planted_problem_has_guilty_lines_and_a_fix(program: Program) -> None:
    in_itself = {line for file, line in program.guilty if file == program.path.name}
    assert in_itself
    assert len(guilty_lines(program.text)) <= len(program.text.splitlines()) / 3
    assert 'environ.get("FIXED")' in program.text


def test_a_healthy_program_has_neither() -> None:
    for program in HEALTHY:
        assert not program.guilty
        assert "FIXED" not in program.text


def test_all_lines_of_a_marked_statement_are_guilty() -> None:
    text = "def f():\n    call(\n        1,\n    )  # guilty\n\n\nwith lock:  # guilty\n    pass\n"
    assert guilty_lines(text) == {2, 3, 4, 7}


def test_needing_nothing_is_said_in_words() -> None:
    assert any(program.facts["Needs"] == NOTHING for program in PROGRAMS)


# What they wait for, or compute, is nearly all of a step: no load of the machine changes that.
ANSWERED = (
    "customer_groups",
    pytest.param("async_gateway", marks=pytest.mark.slow),
    pytest.param("web_crawl", marks=pytest.mark.slow),
)


def findings_of(program: Program, folder: Path) -> Sequence[dict[str, Any]]:
    trace = folder / "answer.stepscope"
    done = stepscope_run("-o", str(trace), str(program.path), cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = python("-m", "stepscope", "summary", "--json", str(trace), cwd=folder)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["findings"]


@pytest.mark.parametrize("name", ANSWERED)
def test_the_first_finding_is_the_planted_problem(name: str, tmp_path: Path) -> None:
    (program,) = [item for item in PROGRAMS if item.name == name]
    first = findings_of(program, tmp_path)[0]
    assert first["id"] in program.problems
    named = {(Path(place["file"]).name, place["line"]) for place in (*first["places"], first)}
    assert not named.isdisjoint(program.guilty), (named, program.guilty)
