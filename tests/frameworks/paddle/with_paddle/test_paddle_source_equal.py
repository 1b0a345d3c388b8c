"""The same events, counts and times as Paddle's own result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from paddle_recording import category_of, paddle_or_skip, paddle_recorded, trace_of

from stepscope import _native
from stepscope.frameworks.paddle.collector import Collector, Share
from stepscope.frameworks.paddle.result_columns import captured_from_pb
from stepscope.trace.build import build
from stepscope.trace.model import TraceInfo

paddle = paddle_or_skip()

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def training() -> Callable[[], None]:
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 1))
    stepper = paddle.optimizer.Adam(parameters=model.parameters())
    x = paddle.ones([2, 4])

    def work() -> None:
        for _ in range(3):
            model(x).sum().backward()
            stepper.step()
            stepper.clear_grad()

    work()  # the first time, the optimizer makes its state
    return work


def nodes_of(result: Any) -> Iterator[Any]:
    """Walk Paddle's own trees, the slow way; their roots are no events."""
    waiting = [node for root in result.get_data().values() for node in root.children_node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children_node


def test_a_trace_holds_what_paddles_own_trees_of_the_same_run_hold() -> None:
    work, collector, share = training(), Collector(paddle.base.core), Share(True, [])
    assert collector.open(share)
    work()
    collector.close(share)
    (segment,) = share.segments
    nodes = list(nodes_of(segment.result))
    theirs = Counter(
        (str(node.thread_id), node.type.name, node.name, node.start_ns, node.end_ns)
        for node in nodes
    )
    allocations = Counter(
        (event.timestamp_ns, event.addr, event.increase_bytes, event.current_allocated)
        for root in segment.result.get_data().values()
        for node in [root, *(n for n in nodes if n.thread_id in _threads_below(root))]
        for event in node.mem_node
    )
    offset_ns = segment.wall_offset_ns
    data = segment.data(paddle.base.core)
    trace = build(captured_from_pb(data, shift_ns=-offset_ns), TraceInfo("test"))
    slices, memory = trace.slices, trace.memory
    ours = Counter(
        (
            trace.tracks[slices.track[row]].tid,
            category_of(trace, row),
            trace.name_of(row),
            int(slices.start_ns[row]) + offset_ns,
            int(slices.end_ns[row]) + offset_ns,
        )
        for row in range(len(trace))
    )
    assert ours == theirs
    assert len(ours) > 100
    columns = (memory.time_ns + offset_ns, memory.address, memory.size, memory.allocated)
    assert Counter(zip(*(column.tolist() for column in columns), strict=True)) == allocations


def _threads_below(root: Any) -> set[int]:
    return {node.thread_id for node in root.children_node}


def test_names_and_counts_are_those_of_paddles_profiler() -> None:
    work = training()
    with paddle_recorded() as recorder:
        work()
    trace = trace_of(recorder)
    profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)
    profiler.start()
    work()
    profiler.stop()
    theirs = Counter(
        node.name
        for node in nodes_of(profiler.profiler_result)
        if not node.name.startswith("ProfileStep#")
    )
    assert Counter(trace.names()) == theirs


def test_paddles_clock_is_mapped_onto_ours_to_well_below_a_microsecond() -> None:
    offsets = [_native.wall_offset_ns() for _ in range(20)]
    assert max(offsets) - min(offsets) < 1_000
    core = paddle.base.core
    with paddle_recorded() as recorder:
        bounds = []
        for _ in range(20):
            before = _native.now_ns()
            core._RecordEvent("between", core.TracerEventType.PythonUserDefined).end()
            bounds.append((before, _native.now_ns()))
    trace = trace_of(recorder)
    rows = [row for row, name in enumerate(trace.names()) if name == "between"]
    assert len(rows) == len(bounds)
    for row, (before, after) in zip(rows, bounds, strict=True):
        assert before - 500 <= trace.slices.start_ns[row]
        assert trace.slices.end_ns[row] <= after + 500
