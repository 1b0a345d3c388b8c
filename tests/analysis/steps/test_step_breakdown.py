"""Where a step goes: parts that exclude each other and add up to the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_trace import Call, trace_of_calls
from sample_traces import SAMPLES, sample_name
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.formats import read_trace
from stepscope.trace.keys import stated_fragment

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

ENGINE = "autograd::engine::evaluate_function: AddBackward0"
RANGE, RUNTIME, KERNEL = "user_annotation", "cuda_runtime", "kernel"


def us(trace: Trace, row: int = 0) -> dict[str, int]:
    """Return the parts of a step in µs, those of length 0 left out."""
    parts = step_breakdown(trace).parts_ns[row]
    return {part.words: int(parts[part]) // 1000 for part in Part if parts[part]}


def step(start: int, end: int, number: int = 1) -> Call:
    return Call(f"ProfilerStep#{number}", start, end, RANGE)


def test_on_the_host_the_innermost_slice_that_tells_decides() -> None:
    trace = trace_of_calls(
        [
            step(0, 2000),
            Call("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 300, RANGE),
            Call("aten::stack", 100, 200),  # within the loader: loading
            Call("aten::addmm", 500, 900),
            Call(ENGINE, 1100, 1500),
            Call("c10d::allreduce_", 1400, 1450),  # within the backward: communication
            Call("Optimizer.step#SGD.step", 1700, 1900, RANGE),
            Call("aten::add_", 1750, 1850),
        ]
    )
    assert us(trace) == {
        "data loading": 300,
        "forward": 400,
        "backward": 350,
        "communication": 50,
        "optimizer": 200,
        "other": 700,
    }


def test_a_moment_of_python_between_operators_is_part_of_them_a_long_one_is_not() -> None:
    trace = trace_of_calls(
        [
            step(0, 1000),
            Call("aten::mm", 0, 200),
            Call("aten::relu", 250, 400),
            Call("aten::mm", 600, 1000),
        ]
    )
    assert us(trace) == {"forward": 800, "other": 200}


def test_a_forward_that_is_computed_again_in_the_backward_is_backward() -> None:
    again = Call("Block", 300, 400, RANGE, rest=stated_fragment("Forward"))
    trace = trace_of_calls([step(0, 1000), Call(ENGINE, 200, 500), again])
    assert us(trace) == {"backward": 300, "other": 700}


def test_operators_of_a_backward_pass_in_an_optimizers_closure_are_backward() -> None:
    closure = [
        Call("aten::mm", 150, 300),
        Call(ENGINE, 300, 700),
        Call("aten::mm", 320, 680),
        Call(ENGINE, 710, 720),
        Call("aten::add_", 720, 900),
    ]
    optimizer = Call("Optimizer.step#SGD.step", 150, 900, RANGE)
    trace = trace_of_calls([step(0, 1000), optimizer, *closure])
    assert us(trace) == {"forward": 150, "backward": 420, "optimizer": 180, "other": 250}


def test_operators_that_make_a_batch_or_clip_gradients_are_no_forward() -> None:
    model = Call("Model", 200, 400, RANGE, rest=stated_fragment("Forward"))
    calls = [
        Call("aten::randn", 0, 150),  # the batch
        Call("aten::mm", 210, 390),
        Call("aten::mean", 400, 500),  # the loss
        Call(ENGINE, 500, 800),
        Call("aten::clamp_", 800, 850),  # of gradients
        Call("Optimizer.step#SGD.step", 850, 950, RANGE),
        Call("aten::argmax", 950, 1000),  # a metric
    ]
    assert us(trace_of_calls([step(0, 1000), model, *calls])) == {
        "forward": 300,
        "backward": 300,
        "optimizer": 100,
        "other": 300,
    }


def test_a_batch_that_an_optimizers_closure_makes_is_no_forward() -> None:
    closure = [
        Call("aten::randn", 100, 200),
        Call("Model", 200, 400, RANGE, rest=stated_fragment("Forward")),
        Call(ENGINE, 400, 700),
    ]
    optimizer = Call("Optimizer.step#LBFGS.step", 100, 900, RANGE)
    trace = trace_of_calls([step(0, 1000), optimizer, *closure])
    assert us(trace) == {"forward": 200, "backward": 300, "optimizer": 200, "other": 300}


def test_while_the_thread_waits_for_the_backward_on_another_one_it_is_in_the_backward() -> None:
    trace = trace_of_calls([step(0, 1000), Call(ENGINE, 200, 900, track=1)])
    assert us(trace) == {"backward": 700, "other": 300}


def test_with_a_device_its_work_counts_and_what_nobody_hides() -> None:
    def launch(start: int, number: int, track: int = 0) -> Call:
        return Call("cudaLaunchKernel", start, start + 5, RUNTIME, track, correlation=number)

    def work(name: str, start: int, end: int, number: int, category: str = KERNEL) -> Call:
        return Call(name, start, end, category, track=3, correlation=number)

    trace = trace_of_calls(
        [
            step(0, 1000),
            Call("enumerate(DataLoader)#x", 0, 150, RANGE),
            work("Memcpy HtoD (Pageable -> Device)", 100, 200, 1, "gpu_memcpy"),
            Call("aten::mm", 200, 220),
            launch(205, 2),
            work("sgemm", 250, 400, 2),
            Call(ENGINE, 230, 260, track=1),
            launch(240, 3, track=1),
            work("sgemm_backward", 400, 600, 3),
            work("ncclDevKernel_AllReduce", 550, 700, 4),
            work("elementwise", 800, 850, 99),  # its launch is not in the trace
        ]
    )
    assert us(trace) == {
        "data loading": 100,
        "copies": 100,
        "forward": 150,
        "backward": 200,
        "communication": 100,
        "other": 50,
        "idle": 300,
    }


def test_a_first_step_that_was_recognised_does_not_count_for_the_average() -> None:
    optimizer = "Optimizer.step#SGD.step"
    trace = trace_of_calls(
        [
            Call("aten::mm", 0, 5000),
            Call(optimizer, 5000, 5100, RANGE),
            Call("aten::mm", 5200, 5700),
            Call(optimizer, 5700, 5800, RANGE),
        ],
        start_ns=0,
        end_ns=5_800_000,
    )
    breakdown = step_breakdown(trace)
    assert breakdown.is_whole.tolist() == [False, True]
    assert breakdown.mean_ns[Part.FORWARD] == 500_000
    assert breakdown.mean_ns[Part.OPTIMIZER] == 100_000


def test_without_steps_there_is_nothing() -> None:
    breakdown = step_breakdown(trace_of_calls([Call("aten::mm", 0, 10)]))
    assert len(breakdown) == 0
    assert sum(breakdown.mean_ns.values()) == 0
    assert breakdown.to_polars().height == 0


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
def test_the_parts_of_real_traces_add_up(path: Path) -> None:
    breakdown = step_breakdown(read_trace(path))
    assert (breakdown.parts_ns >= 0).all()
    assert (breakdown.parts_ns.sum(axis=1) == breakdown.duration_ns).all()
    assert breakdown.to_polars().height == len(breakdown)


def test_the_parts_of_a_real_training_loop() -> None:
    torch = pytest.importorskip("torch")
    from stepscope.torch import profile

    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(192, 256))
    with profile() as profiler:
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=64):
            model(batch).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    breakdown = step_breakdown(profiler.trace)
    assert len(breakdown) == 3
    assert (breakdown.parts_ns.sum(axis=1) == breakdown.duration_ns).all()
    for part in (Part.DATA_LOADING, Part.FORWARD, Part.BACKWARD, Part.OPTIMIZER):
        assert (breakdown.parts_ns[:, part] > 0).all(), part.words
    for part in (Part.COMMUNICATION, Part.COPIES, Part.IDLE):
        assert (breakdown.parts_ns[:, part] == 0).all(), part.words
