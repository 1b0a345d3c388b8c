"""What is counted of a trace, on the host and on devices, by step and by whom."""

from __future__ import annotations

import pytest

from made_trace import Bytes, Call, trace_of_calls
from stepscope.analysis.findings import find_problems
from stepscope.analysis.quantities import Share, quantities
from stepscope.units import BYTES, COUNT, SHARE


def step(number: int, start: int, end: int) -> Call:
    return Call(f"ProfilerStep#{number}", start, end, "user_annotation")


def test_operators_are_counted_by_step_and_those_in_others_apart() -> None:
    calls = [step(i, 100 * i, 100 * i + 90) for i in range(4)]
    for i in range(4):
        at = 100 * i
        calls += [Call("aten::linear", at + 1, at + 20), Call("aten::addmm", at + 2, at + 19)]
        calls += [Call("aten::add", at + 30 + 2 * j, at + 31 + 2 * j) for j in range(1 + (i == 0))]
    measured = quantities(trace_of_calls(calls))
    assert measured["ops"].total == 9
    assert measured["ops"].by_step == (3, 2, 2, 2)
    assert measured["ops"].a_step == 2
    assert measured["all_ops"].by_step == (4, 3, 3, 3)
    assert [(row.name, row.total) for row in measured["ops"].rows] == [
        ("aten::add", 5), ("aten::linear", 4),
    ]  # fmt: skip


def test_device_work_belongs_to_the_step_that_launched_it() -> None:
    calls = [step(0, 0, 100), step(1, 100, 200), step(2, 200, 300)]
    for i in range(3):
        at = 100 * i
        calls.append(Call("cudaLaunchKernel", at + 90, at + 95, "cuda_runtime", correlation=i + 1))
        calls.append(Call("gemm", at + 110, at + 150, "kernel", track=1, correlation=i + 1))
    calls.append(Call("cudaDeviceSynchronize", 250, 260, "cuda_runtime"))
    measured = quantities(trace_of_calls(calls))
    assert measured["kernels"].by_step == (1, 1, 1)
    assert measured["synchronisations"].total == 1
    assert measured["synchronisations"].rows[0].name == "cudaDeviceSynchronize"
    assert measured["device_busy"].total == pytest.approx(3 * 40 / 350, rel=0.2)


def test_without_a_device_the_operators_count_that_would_wait() -> None:
    frames = ("model.py(12): forward", "train.py(3): <module>")
    calls = [
        Call("aten::item", 10, 20, stack=frames),
        Call("aten::_local_scalar_dense", 11, 19),
        Call("Optimizer.step#Adam.step", 30, 60, "user_annotation"),
        Call("aten::_local_scalar_dense", 35, 40),
    ]
    measured = quantities(trace_of_calls(calls))["synchronisations"]
    assert measured.total == 1, "an optimizer reads its own counters, which are on the CPU"
    assert measured.rows[0].words == "aten::_local_scalar_dense at forward (model.py:12)"


def test_recompilations_and_breaks() -> None:
    calls = [
        Call("torch.compile 0/0: f", 0, 10, "compile"),
        Call("torch.compile 0/1: f", 20, 30, "compile"),
        Call("graph break: f at a.py:3", 40, 40, "compile"),
    ]
    measured = quantities(trace_of_calls(calls))
    counts = [measured[name].total for name in ("compilations", "recompilations", "graph_breaks")]
    assert counts == [2, 1, 1]


def test_recompilations_in_the_recording_of_another_profiler() -> None:
    def compilation(start: int) -> Call:
        name = "_compile.compile_inner (dynamo_timed)"
        return Call(name, start, start + 10, "user_annotation")

    ran = Call("Torch-Compiled Region: 0/0", 12, 20)
    measured = quantities(trace_of_calls([compilation(0), ran, compilation(30)]))
    assert measured["recompilations"].total == 1
    result = Call("gc, compile_id=1/0", 32, 33, "user_annotation")
    measured = quantities(trace_of_calls([compilation(0), ran, compilation(30), result]))
    assert measured["recompilations"].total == 0, "the first compilation of another region"


def test_the_first_compilation_behind_a_graph_break_is_no_recompilation() -> None:
    mark = "_compile.compile_inner (dynamo_timed)"
    calls = [
        Call("torch.compile 0/0: f", 0, 10, "compile"),
        Call(mark, 1, 9, "user_annotation"),
        Call("Torch-Compiled Region: 0/0", 12, 20),
        Call("graph break: f at a.py:3", 20, 20, "compile"),
        Call("torch.compile 1/0: f after the graph break at a.py:3", 30, 40, "compile"),
        Call(mark, 31, 39, "user_annotation"),
    ]
    trace = trace_of_calls(calls)
    assert quantities(trace)["recompilations"].total == 0
    assert "recompilations" not in {finding.id for finding in find_problems(trace)}


def test_memory_and_what_was_not_recorded() -> None:
    with_memory = trace_of_calls(
        [Call("aten::empty", 0, 10)], memory=[Bytes(5, 1000), Bytes(8, 24), Bytes(9, -1000)]
    )
    measured = quantities(with_memory)
    assert (measured["peak_memory"].total, measured["allocated_bytes"].total) == (1024, 1024)
    without = quantities(trace_of_calls([Call("aten::empty", 0, 10)]))
    assert without["peak_memory"].total is None
    assert "--memory" in without["peak_memory"].why_not
    assert "--shapes" in without["flops"].why_not


def test_the_line_that_has_become_more_though_lines_have_moved() -> None:
    before = Share("aten::add", 12, (("a.py:5", 10.0), ("a.py:9", 2.0)))
    after = Share("aten::add", 15, (("a.py:6", 10.0), ("a.py:8", 3.0), ("a.py:10", 2.0)))
    assert after.new_place(before) == "a.py:8"
    assert after.new_place(None) == "a.py:6"


def test_values_for_people() -> None:
    assert COUNT.text(1234) == "1,234"
    assert COUNT.text(2.5) == "2.5"
    assert BYTES.text(2**20) == "1.00 MiB"
    assert SHARE.text(0.5) == "50.0%"
