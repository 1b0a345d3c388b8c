"""Flame graphs: calls merged by their path, with sums that lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_trace import Bytes, Call, trace_of_calls
from sample_traces import SAMPLES, sample_name
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.code.stacks import stack_of_events
from stepscope.analysis.host.averages import single_events
from stepscope.analysis.host.flame import ALL, NO_LAUNCH, OUTSIDE, flame_graph
from stepscope.analysis.host.flame_merge import OTHERS
from stepscope.analysis.memory.usage import memory_events
from stepscope.formats import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis.host.flame_merge import FlameGraph
    from stepscope.trace.model import Trace

STEP = Call("ProfilerStep#1", 0, 50, "user_annotation")


def graph_of(trace: Trace, *, by_stack: bool = False, most_nodes: int = 1000) -> FlameGraph:
    tree = call_tree(trace)
    stacks = stack_of_events(tree, by_calls=True) if by_stack else None
    return flame_graph(tree, single_events(tree), stacks, most_nodes=most_nodes)


def paths(graph: FlameGraph, metric: str = "cpu_ns", unit: int = 1000) -> dict[str, int]:
    """Return what each path holds itself; times in µs."""
    spelled: list[str] = []
    for row, (parent, text) in enumerate(zip(graph.parent, graph.text, strict=True)):
        around = f"{spelled[parent]};" if parent else ""
        spelled.append(around + graph.texts[text] if row else "")
    own = graph.own[metric].tolist()
    assert spelled.count("") == 1
    assert len(set(spelled)) == len(spelled), "two nodes stand for one path"
    return {path or ALL: amount // unit for path, amount in zip(spelled, own, strict=True)}


def test_calls_with_one_path_are_one_node() -> None:
    trace = trace_of_calls(
        [
            STEP,
            Call("aten::linear", 10, 20),
            Call("aten::addmm", 12, 18),
            Call("ProfilerStep#2", 60, 100, "user_annotation"),
            Call("aten::linear", 70, 90),
            Call("aten::addmm", 75, 80),
            Call("aten::addmm", 82, 84),
        ]
    )
    assert paths(graph_of(trace)) == {
        "all": 0,
        "ProfilerStep*": 40 + 20,
        "ProfilerStep*;aten::linear": 4 + 13,
        "ProfilerStep*;aten::linear;aten::addmm": 6 + 7,
    }


def test_device_work_stands_below_the_call_that_launched_it() -> None:
    trace = trace_of_calls(
        [
            Call("aten::mm", 0, 10),
            Call("cudaLaunchKernel", 2, 4, "cuda_runtime", correlation=7),
            Call("gemm", 20, 50, "kernel", track=1, correlation=7),
            Call("lonely", 50, 55, "kernel", track=1, correlation=99),
        ]
    )
    graph = graph_of(trace)
    assert paths(graph, "device_ns") == {
        "all": 0,
        "aten::mm": 0,
        "aten::mm;cudaLaunchKernel": 0,
        "aten::mm;gemm": 30,
        NO_LAUNCH: 0,
        f"{NO_LAUNCH};lonely": 5,
    }
    assert paths(graph)["aten::mm;cudaLaunchKernel"] == 2


def test_a_stack_goes_above_the_operators_that_started_in_it() -> None:
    stack = ("model.py(3): forward", "main.py(9): <module>")
    trace = trace_of_calls(
        [
            STEP,
            Call("aten::linear", 10, 20, stack=stack),
            Call("aten::addmm", 12, 18, stack=stack),
            Call("aten::relu", 30, 35, stack=("main.py(9): <module>",)),
        ]
    )
    main = "main.py(9): <module>"
    assert paths(graph_of(trace, by_stack=True)) == {
        "all": 0,
        "ProfilerStep*": 35,
        main: 0,
        f"{main};aten::relu": 5,
        f"{main};model.py(3): forward": 0,
        f"{main};model.py(3): forward;aten::linear": 4,
        f"{main};model.py(3): forward;aten::linear;aten::addmm": 6,
    }


def test_python_functions_of_foreign_traces_are_frames_and_hold_their_own_time() -> None:
    trace = trace_of_calls(
        [
            Call("main.py(1): main", 0, 50, "python_function"),
            Call("<built-in method add of Tensor object at 0x7f01>", 5, 15, "python_function"),
            Call("aten::add", 6, 14),
            Call("<built-in method add of Tensor object at 0x7f99>", 20, 30, "python_function"),
            Call("aten::add", 21, 29),
        ]
    )
    add = "main.py(1): main;<built-in method add of Tensor object>"
    expected = {"all": 0, "main.py(1): main": 30, add: 4, f"{add};aten::add": 16}
    assert paths(graph_of(trace, by_stack=True)) == expected
    assert paths(graph_of(trace)) == expected


def test_allocations_count_in_full_and_those_of_nobody_too() -> None:
    trace = trace_of_calls(
        [Call("aten::empty", 0, 10)],
        [Bytes(2, 100), Bytes(4, -100), Bytes(5, 50), Bytes(6, 7, "cuda:0"), Bytes(90, 20)],
    )
    graph = graph_of(trace)
    assert paths(graph, "cpu_bytes", 1) == {"all": 0, "aten::empty": 150, OUTSIDE: 20}
    assert paths(graph, "device_bytes", 1)["aten::empty"] == 7


def test_the_smallest_become_others_and_no_time_is_lost() -> None:
    calls = [Call("outer", 0, 10_000)]
    calls += [Call(f"op {i}", 10 * i, 10 * i + (9 if i < 3 else 2)) for i in range(100)]
    graph = graph_of(trace_of_calls(calls), most_nodes=10)
    assert len(graph) <= 10
    assert graph.merged == 100 - 3
    result = paths(graph)
    assert {f"outer;op {i}" for i in range(3)} <= set(result)
    assert result[f"outer;{OTHERS}"] == 97 * 2
    assert sum(result.values()) == 10_000


def test_a_trace_without_events_has_only_the_root() -> None:
    graph = graph_of(trace_of_calls([]))
    assert paths(graph) == {"all": 0}


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
@pytest.mark.parametrize("most_nodes", [50_000, 300])
def test_the_sums_are_those_of_the_trace(path: Path, most_nodes: int) -> None:
    trace = read_trace(path)
    tree = call_tree(trace)
    item = single_events(tree)
    size = memory_events(trace).size
    for stacks in (None, stack_of_events(tree, by_calls=True)):
        graph = flame_graph(tree, item, stacks, most_nodes=most_nodes)
        assert len(graph) <= most_nodes
        assert (graph.parent[1:] < np.arange(1, len(graph))).all()
        whole = {metric: int(graph.own[metric].sum()) for metric in graph.own}
        assert whole["cpu_ns"] == item.total_self_cpu_ns
        assert whole.get("device_ns", 0) == item.total_self_device_ns
        allocated = whole.get("cpu_bytes", 0) + whole.get("device_bytes", 0)
        assert allocated == int(size[size > 0].sum())
