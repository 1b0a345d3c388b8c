"""Programs that use paddle.profiler themselves, while they are recorded: both have everything."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from paddle_recording import paddle_or_skip, paddle_recorded, rows_of, trace_of

paddle = paddle_or_skip()


def train(model: Any, stepper: Any) -> None:
    with paddle.profiler.RecordEvent("mine"):
        loss = model(paddle.ones([4, 8])).sum()
    loss.backward()
    stepper.step()
    stepper.clear_grad()


def members_in(result: Any) -> Counter[tuple[str, str]]:
    """Count the events of Paddle's own result, and its memory events."""
    count: Counter[tuple[str, str]] = Counter()
    waiting = list(result.get_data().values())
    while waiting:
        node = waiting.pop()
        count[node.type.name, node.name] += 1
        count["memory", ""] += len(node.mem_node)
        waiting += node.children_node
    return count


def profiled(**options: Any) -> tuple[Counter[tuple[str, str]], list[int]]:
    """Run a program with a profiler of its own, and return what it got."""
    model = paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2))
    stepper = paddle.optimizer.SGD(parameters=model.parameters())
    delivered: list[int] = []
    profiler = paddle.profiler.Profiler(
        targets=[paddle.profiler.ProfilerTarget.CPU],
        scheduler=(2, 4),
        on_trace_ready=lambda profiler: delivered.append(profiler.step_num),
        **options,
    )
    with profiler:
        for _ in range(5):
            train(model, stepper)
            profiler.step()
    return members_in(profiler.profiler_result), delivered


@pytest.mark.parametrize("memory", [False, True])
def test_both_record_everything(memory: bool) -> None:
    expected = profiled(profile_memory=True)
    with paddle_recorded(memory=memory) as recorder:
        got = profiled(profile_memory=True)
        paddle.ones([1000])
    assert got == expected
    assert got[0]["memory", ""]
    trace = trace_of(recorder)
    assert len(rows_of(trace, "mine")) == len(rows_of(trace, "Optimization Step")) == 5
    assert len(rows_of(trace, "matmul kernel launch")) == 10
    assert [len(rows_of(trace, f"ProfileStep#{step}")) for step in range(5)] == [1] * 5
    assert (trace.memory.size == 4000).any() == memory  # it goes on after theirs has ended


def test_a_second_profiler_fails_as_it_does_without_us() -> None:
    with paddle_recorded():
        first = paddle.profiler.Profiler()
        second = paddle.profiler.Profiler()
        with pytest.raises(AttributeError, match="prepare"):
            second.start()
        assert first.profiler is not None
    paddle.profiler.utils._is_profiler_used = False  # as it leaves it
    paddle.profiler.timer.benchmark().end()


def test_a_profiler_outlives_our_recording(capfd: pytest.CaptureFixture[str]) -> None:
    with paddle_recorded() as recorder:
        paddle.ones([2])
        profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)
        profiler.start()
        paddle.ones([3])
    paddle.ones([4])
    profiler.stop()
    assert members_in(profiler.profiler_result)["DygraphKernelLaunch", "full kernel launch"] == 2
    assert len(rows_of(trace_of(recorder), "full kernel launch")) == 1
    assert "ended before that did" in capfd.readouterr().err
    profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)  # the real one again
    with profiler, paddle_recorded():
        paddle.ones([5])
    assert members_in(profiler.profiler_result)["DygraphKernelLaunch", "full kernel launch"] == 1
    assert "a paddle.profiler.Profiler exists" in capfd.readouterr().err
