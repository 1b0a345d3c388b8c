"""Flame graphs of samples: frames, modules, operators and kernels in one stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.base.intervals import union
from stepscope.analysis.host.flame_merge import NATIVE
from stepscope.analysis.host.sampled_flame import NO_PYTHON, sampled_flame_graph
from stepscope.trace.model import SliceKind, ThreadState

if TYPE_CHECKING:
    from stepscope.analysis.host.flame_merge import FlameGraph

MAIN = "train.py(30): <module>"
WRAPPED = "torch/nn/modules/module.py(1778): Module._wrapped_call_impl"
CALL = "torch/nn/modules/module.py(1789): Module._call_impl"
FORWARD = "train.py(12): Net.forward"
LINEAR = "torch/nn/modules/linear.py(134): Linear.forward"
STACK = (LINEAR, CALL, WRAPPED, FORWARD, CALL, WRAPPED, MAIN)


def paths(graph: FlameGraph, metric: str = "cpu_ns") -> dict[str, int]:
    """Return what each path that holds anything holds itself, in µs."""
    spelled: list[str] = []
    for row, (parent, text) in enumerate(zip(graph.parent, graph.text, strict=True)):
        around = f"{spelled[parent]};" if parent else ""
        spelled.append(around + graph.texts[text] if row else "")
    own = graph.own[metric].tolist()
    return {path: ns // 1000 for path, ns in zip(spelled, own, strict=True) if ns}


def kind_of(graph: FlameGraph, text: str) -> int:
    return int(graph.kind[[graph.texts[code] for code in graph.text].index(text)])


def test_operators_stand_below_the_frames_they_ran_in() -> None:
    trace = trace_of_calls(
        [Call("aten::linear", 0, 100), Call("aten::addmm", 10, 90)],
        samples=[
            Sample(20, 60, (LINEAR, MAIN), ThreadState.NATIVE),
            Sample(95, 100, (LINEAR, MAIN), ThreadState.NATIVE),
            Sample(110, 140, ("<native call len>", MAIN), ThreadState.NATIVE),
        ],
    )
    graph = sampled_flame_graph(trace)
    assert paths(graph) == {
        f"{MAIN};{LINEAR};aten::linear": 5,
        f"{MAIN};{LINEAR};aten::linear;aten::addmm": 40,
        f"{MAIN};<native call len>": 30,
    }
    assert kind_of(graph, MAIN) == SliceKind.PYTHON
    assert kind_of(graph, "aten::addmm") == SliceKind.OPERATOR
    assert kind_of(graph, "<native call len>") == NATIVE


def test_modules_take_the_place_of_the_frames_that_call_them() -> None:
    trace = trace_of_calls(
        [
            Call("Net", 0, 200, "module"),
            Call("layers.0", 10, 90, "module"),
            Call("aten::mm", 20, 80),
            Call("layers.1", 100, 190, "module"),
        ],
        samples=[
            Sample(30, 50, STACK, ThreadState.NATIVE),
            Sample(110, 120, STACK),
            Sample(300, 310, STACK),  # when no module is known to run
        ],
    )
    graph = sampled_flame_graph(trace)
    assert paths(graph) == {
        f"{MAIN};Net;{FORWARD};layers.0;{LINEAR};aten::mm": 20,
        f"{MAIN};Net;{FORWARD};layers.1;{LINEAR}": 10,
        f"{MAIN};{WRAPPED};{CALL};{FORWARD};{WRAPPED};{CALL};{LINEAR}": 10,
    }
    assert kind_of(graph, "layers.0") == SliceKind.MODULE


def test_device_work_stands_below_its_operator_in_the_frames_of_that_time() -> None:
    trace = trace_of_calls(
        [
            Call("aten::mm", 10, 30),
            Call("cudaLaunchKernel", 12, 14, "cuda_runtime", correlation=1),
            Call("gemm", 40, 90, "kernel", track=1, correlation=1),
            Call("lonely", 90, 95, "kernel", track=1, correlation=9),
        ],
        samples=[Sample(0, 100, (FORWARD, MAIN))],
    )
    graph = sampled_flame_graph(trace)
    assert paths(graph, "device_ns") == {
        f"{MAIN};{FORWARD};aten::mm;gemm": 50,
        "(unknown launch);lonely": 5,
    }
    assert set(graph.cells.track[graph.cells.amounts["device_ns"] > 0]) == {0, 1}


def test_cells_tell_threads_waiting_and_steps_apart() -> None:
    trace = trace_of_calls(
        [],
        samples=[
            Sample(0, 100, (FORWARD, MAIN)),
            Sample(100, 200, (FORWARD, MAIN), ThreadState.BLOCKED),
            Sample(0, 50, (FORWARD, MAIN), ThreadState.GIL, track=1),
            Sample(0, 70, (), ThreadState.NATIVE, track=2),
        ],
    )
    steps = union(np.array([80_000]), np.array([150_000]))
    cells = sampled_flame_graph(trace, steps=steps).cells
    pairs = zip(
        cells.track,
        cells.waiting,
        cells.amounts["cpu_ns"] // 1000,
        cells.in_steps["cpu_ns"] // 1000,
        strict=True,
    )
    assert sorted(map(tuple, pairs)) == [
        (0, False, 100, 20),
        (0, True, 100, 50),
        (1, True, 50, 0),
        (2, False, 70, 0),
    ]
    assert NO_PYTHON in sampled_flame_graph(trace).texts
