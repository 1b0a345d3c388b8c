"""What the user's lines cost: every number against calls written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_trace import Bytes, Call, trace_of_calls
from stepscope.analysis.host.source_lines import NO_LINE, is_own_file, place_of, source_lines
from stepscope.trace.model import DEVICE_KINDS, SliceKind

if TYPE_CHECKING:
    from stepscope.analysis.host.source_lines import SourceLines
    from stepscope.trace.model import Trace

MAIN = "train.py(30): <module>"
FORWARD = "model.py(12): Model.forward"
LINEAR = "torch/nn/modules/linear.py(134): Linear.forward"


def lines_of(trace: Trace) -> SourceLines:
    lines = source_lines(trace)
    assert lines is not None
    return lines


def by_line(lines: SourceLines, column: str) -> dict[tuple[str, int], int]:
    values = getattr(lines, column).tolist()
    return {(p.file, p.line): v for p, v in zip(lines.place, values, strict=True)}


class TestNames:
    @pytest.mark.parametrize(
        ("frame", "place"),
        [
            ("model.py(12): forward", ("model.py", 12, "forward")),
            ("a (1): b/c.py(3): <lambda>", ("a (1): b/c.py", 3, "<lambda>")),
            ("</script>.py(7): f\nx", ("</script>.py", 7, "f\nx")),
        ],
    )
    def test_a_frame_is_a_place(self, frame: str, place: tuple[str, int, str]) -> None:
        assert place_of(frame) == place

    @pytest.mark.parametrize("frame", ["<built-in function len>", "nn.Module: Linear_0", "", "(1)"])
    def test_what_is_in_no_file_is_none(self, frame: str) -> None:
        assert place_of(frame) is None

    @pytest.mark.parametrize(
        ("file", "own"),
        [
            ("train.py", True),
            ("my/model.py", True),
            ("/home/me/torch_things/train.py", True),
            ("<ipython-input-3-abc>", True),
            ("torch/nn/modules/linear.py", False),
            ("transformers/models/llama/modeling_llama.py", False),
            ("keras/src/layers/layer.py", False),
            ("logging/__init__.py", False),
            ("threading.py", False),
            ("<frozen importlib._bootstrap>", False),
            ("/opt/venv/lib/python3.11/site-packages/einops/core.py", False),
            ("/opt/venv/bin/stepscope", False),
        ],
    )
    def test_whose_a_file_is(self, file: str, own: bool) -> None:
        assert is_own_file(file) is own


class TestTimes:
    CALLS = (
        Call("aten::linear", 0, 100, stack=(LINEAR, FORWARD, MAIN)),
        Call("aten::addmm", 10, 70, stack=(LINEAR, FORWARD, MAIN)),
        Call("aten::sum", 100, 120, stack=(MAIN,)),
        Call("aten::rand", 130, 135, stack=(LINEAR,)),
        Call("aten::ones", 140, 147),
    )

    def test_an_operator_is_its_innermost_line_of_the_users(self) -> None:
        lines = lines_of(trace_of_calls(self.CALLS))
        assert by_line(lines, "self_ns") == {("model.py", 12): 100_000, ("train.py", 30): 20_000}
        assert by_line(lines, "total_ns") == {("model.py", 12): 100_000, ("train.py", 30): 120_000}
        assert by_line(lines, "calls") == {("model.py", 12): 1, ("train.py", 30): 1}

    def test_lines_and_the_rest_make_the_whole(self) -> None:
        lines = lines_of(trace_of_calls(self.CALLS))
        assert lines.elsewhere_ns == 12_000
        assert lines.self_ns.sum() + lines.elsewhere_ns == 132_000

    def test_a_lines_operators_sum_to_it(self) -> None:
        trace = trace_of_calls(self.CALLS)
        lines = lines_of(trace)
        item = lines.operators
        names = [trace.strings[int(i)] for i in item.name]
        assert names == ["aten::addmm", "aten::linear", "aten::sum"]
        assert item.self_ns.tolist() == [60_000, 40_000, 20_000]
        assert np.bincount(item.line, item.self_ns).tolist() == lines.self_ns.tolist()

    def test_recursion_counts_once(self) -> None:
        stack = (FORWARD, "model.py(20): deeper", FORWARD, MAIN)
        lines = lines_of(trace_of_calls([Call("aten::mm", 0, 10, stack=stack)]))
        assert by_line(lines, "total_ns")["model.py", 12] == 10_000
        assert by_line(lines, "self_ns")["model.py", 20] == 0

    def test_two_functions_on_one_line_are_one_line(self) -> None:
        calls = [
            Call("aten::mm", 0, 10, stack=("a.py(1): f",)),
            Call("aten::mm", 10, 30, stack=("a.py(1): <lambda>",)),
        ]
        assert by_line(lines_of(trace_of_calls(calls)), "self_ns") == {("a.py", 1): 30_000}

    def test_without_stacks_there_are_no_lines(self) -> None:
        assert source_lines(trace_of_calls([Call("aten::mm", 0, 10)])) is None

    def test_nor_with_stacks_of_libraries_only(self) -> None:
        assert source_lines(trace_of_calls([Call("aten::mm", 0, 10, stack=(LINEAR,))])) is None


class TestPythonCalls:
    """As torch.profiler writes them: frames are slices, named by the line where they begin."""

    CALLS = (
        Call("train.py(1): main", 0, 100, "python_function"),
        Call("model.py(8): forward", 10, 90, "python_function"),
        Call("torch/nn/linear.py(1): forward", 20, 80, "python_function"),
        Call("aten::mm", 30, 70),
    )

    def test_a_functions_own_time_is_at_its_first_line(self) -> None:
        lines = lines_of(trace_of_calls(self.CALLS))
        assert by_line(lines, "self_ns") == {("model.py", 8): 80_000, ("train.py", 1): 20_000}
        assert by_line(lines, "total_ns") == {("model.py", 8): 80_000, ("train.py", 1): 100_000}
        assert lines.elsewhere_ns == 0

    def test_calls_of_the_function_and_of_operators_count(self) -> None:
        lines = lines_of(trace_of_calls(self.CALLS))
        assert by_line(lines, "calls") == {("model.py", 8): 2, ("train.py", 1): 1}


class TestDevicesAndMemory:
    def test_device_work_is_that_of_its_launch(self) -> None:
        calls = [
            Call("aten::mm", 0, 50, stack=(LINEAR, FORWARD, MAIN)),
            Call("cudaLaunchKernel", 10, 20, "cuda_runtime", correlation=7),
            Call("gemm", 100, 140, "kernel", track=2, correlation=7),
        ]
        lines = lines_of(trace_of_calls(calls))
        assert by_line(lines, "device_ns") == {("model.py", 12): 40_000, ("train.py", 30): 0}
        assert by_line(lines, "total_device_ns")["train.py", 30] == 40_000
        assert by_line(lines, "self_ns")["model.py", 12] == 50_000

    def test_memory_is_that_of_the_operator_that_asked(self) -> None:
        memory = [Bytes(5, 64), Bytes(6, 32, "cuda:0"), Bytes(7, -64), Bytes(200, 9)]
        calls = [Call("aten::mm", 0, 50, stack=(FORWARD, MAIN))]
        from stepscope.trace.build import tied_to_slices

        trace = trace_of_calls(calls, memory)
        assert (tied_to_slices(trace.memory, trace.slices).slice[:2] == 0).all()
        lines = lines_of(trace)
        assert by_line(lines, "cpu_bytes")["model.py", 12] == 64
        assert by_line(lines, "device_bytes")["model.py", 12] == 32
        assert by_line(lines, "total_bytes")["train.py", 30] == 96


def test_a_recording_of_torch_adds_up() -> None:
    torch = pytest.importorskip("torch")
    import stepscope

    layer = torch.nn.Linear(8, 8)
    with stepscope.profile(with_stack=True, profile_memory=True) as prof:
        for _ in range(3):
            layer(torch.randn(4, 8)).sum().backward()
    trace = prof.trace
    lines = lines_of(trace)
    on_host = ~np.isin(trace.slices.kind, DEVICE_KINDS)
    assert lines.self_ns.sum() + lines.elsewhere_ns == trace.slices.self_ns[on_host].sum()
    assert (lines.total_ns >= lines.self_ns).all()
    here = [place for place in lines.place if place.file.endswith("test_source_lines.py")]
    assert here
    operators = trace.slices.kind == SliceKind.OPERATOR
    assert (lines.of_slice[operators] != NO_LINE).any()
