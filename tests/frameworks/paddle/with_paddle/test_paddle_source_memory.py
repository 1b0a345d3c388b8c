"""Allocations of Paddle's, each counted once."""

from __future__ import annotations

from paddle_recording import paddle_or_skip, paddle_recorded, trace_of

paddle = paddle_or_skip()


def test_an_operators_bytes_are_counted_once() -> None:
    x = paddle.ones([256])
    with paddle_recorded(memory=True) as recorder:
        y = paddle.exp(x)
    trace = trace_of(recorder)
    memory = trace.memory
    assert memory.size.tolist() == [1024]
    assert memory.address.tolist() == [y.data_ptr()]
    assert trace.strings[int(memory.device[0])] == "cpu"
    assert trace.name_of(int(memory.slice[0])) == "exp kernel launch"


def test_running_totals_follow_the_events() -> None:
    x = paddle.ones([256])
    with paddle_recorded(memory=True) as recorder:
        for _ in range(3):
            y = paddle.exp(x)
            del y
    memory = trace_of(recorder).memory
    assert memory.size.tolist() == [1024, -1024] * 3
    assert len(set(memory.allocated[::2].tolist())) == 1
    assert (memory.allocated[::2] - memory.allocated[1::2]).tolist() == [1024] * 3


def test_paddles_summary_counts_the_same_bytes_twice() -> None:
    """The reason: a kernel launch's bytes are shown as its own, and as its operator's again."""
    profiler = paddle.profiler.Profiler(profile_memory=True, on_trace_ready=lambda _: None)
    x = paddle.ones([256])
    profiler.start()
    y = paddle.exp(x)
    profiler.stop()
    statistic = paddle.profiler.profiler_statistic.MemorySummary()
    statistic.parse(profiler.profiler_result.get_data())
    (items,) = statistic.allocated_items.values()
    shown = {name: item.allocation_size for name, item in items.items()}
    assert shown == {"exp dygraph": 1024, "exp kernel launch": 1024}
    assert y.size * 4 == 1024


def test_without_the_option_there_is_no_memory_also_beside_a_recording_that_has_it() -> None:
    x = paddle.ones([256])
    with paddle_recorded(memory=True) as with_memory, paddle_recorded() as without:
        paddle.exp(x)
    assert len(trace_of(with_memory).memory)
    assert not len(trace_of(without).memory)
    with paddle_recorded() as after:
        paddle.exp(x)
    assert not len(trace_of(after).memory)
