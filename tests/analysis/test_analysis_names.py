"""The public face of the analyses."""

from __future__ import annotations

from made_trace import Call, trace_of_calls
from recording import run_python
from stepscope import analysis


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
