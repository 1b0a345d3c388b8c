"""The public face of the analyses."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from made_trace import Call, trace_of_calls
from recording import run_python
from stepscope import analysis

# What the type checker is told: the home of each name.
TREE = ast.parse(Path(inspect.getfile(analysis)).read_text(encoding="utf-8"))
HOMES = {
    alias.name: str(node.module)
    for block in TREE.body
    if isinstance(block, ast.If)
    for node in block.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_the_type_checker_knows_the_same_names() -> None:
    assert set(HOMES) == set(analysis.__all__)


@pytest.mark.parametrize("name", analysis.__all__)
def test_every_name_is_what_the_type_checker_thinks(name: str) -> None:
    assert getattr(analysis, name) is getattr(import_module(HOMES[name]), name)
    assert name in dir(analysis)


def test_importing_it_imports_no_analysis() -> None:
    code = """
import sys
import stepscope.analysis
before = {name for name in sys.modules if name.startswith("stepscope.analysis.")}
assert not before and "numpy" not in sys.modules, before
assert stepscope.analysis.step_breakdown is stepscope.analysis.step_breakdown
try:
    stepscope.analysis.step_brakedown
except AttributeError as error:
    assert "step_brakedown" in str(error)
else:
    raise SystemExit("there is no such analysis")
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_every_function_is_in_the_documentation() -> None:
    functions = [name for name in analysis.__all__ if name.islower()]
    assert analysis.__doc__
    undocumented = [name for name in functions if f"``{name}``" not in analysis.__doc__]
    assert not undocumented


def test_averages_of_a_trace() -> None:
    calls = [Call("aten::mm", 0, 30), Call("aten::mm", 40, 50), Call("aten::add", 60, 61)]
    rows = analysis.averages(trace_of_calls(calls))
    assert dict(zip(rows.key, rows.cpu_ns.tolist(), strict=True)) == {
        "aten::mm": 40_000,
        "aten::add": 1_000,
    }
