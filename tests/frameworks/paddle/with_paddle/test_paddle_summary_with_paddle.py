"""summary() beside Paddle's own, of the same data: the same text but for what Paddle gets wrong."""

from __future__ import annotations

import random
import re
import threading
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

# A folder of tests named so can be imported, too; only Paddle itself has an origin.
if getattr(find_spec("paddle"), "origin", None) is None:
    pytest.skip("needs Paddle", allow_module_level=True)

import paddle
from paddle.profiler import profiler_statistic

from made_paddle_tree import Bytes, Device, Host, Runtime, as_paddle, trace_of_threads
from stepscope.frameworks.paddle.views.summary import summary_text
from stepscope.frameworks.paddle.views.summary_tables import (
    SortedKeys,
    SummaryView,
    summary_tables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stepscope.trace.model import Trace

EXTRA = {"Process Cpu Utilization": "1.25", "System Cpu Utilization": "0.75"}
HOST_TYPES = [
    *("Operator", "Operator", "Operator", "OperatorInner", "DygraphKernelLaunch"),
    *("StaticKernelLaunch", "UserDefined", "PythonUserDefined", "Forward", "Backward"),
    *("Optimization", "Dataloader", "Communication", "PythonOp"),
]
SPECIAL_NAMES = {
    "Operator": ["c_allreduce_sum", "c_Broadcast", "o" * 60],
    "UserDefined": ["GpuMemcpyAsync:CPU->GPU", "MemorySet Memset"],
    "PythonUserDefined": ["my memcpy"],
    "OperatorInner": ["i" * 60],
}
KERNELS = [
    *("void gemm<float, 128>(float*, int)", "ncclKernel_AllReduce", "plain(int)"),
    *("XcclSum", "void f<" + "x" * 100 + ">(int)", "copy" * 20),
]
ALL_BUT_MEMORY = [view for view in SummaryView if view != SummaryView.MemoryView]


def without_notes(text: str) -> str:
    return re.sub(r"^Note:\n.*?^(?=-+$)", "Note:\n", text, flags=re.MULTILINE | re.DOTALL)


def paddle_text(nodes: Mapping[int, Any], extra: Mapping[str, str], **options: Any) -> str:
    """Return what Paddle prints of a result tree."""
    if "views" in options:
        options["views"] = [paddle.profiler.SummaryView[view.name] for view in options["views"]]
    key = options.pop("sorted_by", SortedKeys.CPUTotal)
    text: str = profiler_statistic._build_table(
        profiler_statistic.StatisticData(nodes, extra),
        sorted_by=paddle.profiler.SortedKeys[key.name],
        **options,
    )
    return text


class TreeMaker:
    """Makes trees of events with few different names and times, so that rows often tie."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def threads(self) -> dict[int, list[Host]]:
        steps = [
            self.host(f"ProfileStep#{i}", "ProfileStep", 2000 * i, 2000 * i + 1990, 0)
            for i in range(3)
        ]
        worker = [self.any_host(100 + 700 * i, 700 + 700 * i, 1) for i in range(4)]
        return {5: steps, 17: worker}

    def any_host(self, start: int, end: int, depth: int) -> Host:
        event_type = self.random.choice(HOST_TYPES)
        names = [f"{event_type} {i}" for i in range(3)] + SPECIAL_NAMES.get(event_type, [])
        return self.host(self.random.choice(names), event_type, start, end, depth)

    def host(self, name: str, event_type: str, start: int, end: int, depth: int) -> Host:
        node = Host(name, event_type, start, end)
        at = start + self.random.randint(1, 5)
        while depth < 6 and end - at > 20:
            length = min(self.random.choice([10, 20, 50, 100, 300]), end - at - 5)
            self.fill(node, at, at + length, depth)
            at += length + self.random.randint(2, 20)
        return node

    def fill(self, node: Host, start: int, end: int, depth: int) -> None:
        what = self.random.random()
        if what < 0.65:
            node.children_node.append(self.any_host(start, end, depth + 1))
        elif what < 0.85:
            node.runtime_node.append(self.call(start, min(start + 10, end)))
        elif node.type != "OperatorInner":  # Paddle loses most of its bytes
            node.mem_node.append(Bytes(start + 1, self.random.choice([-64, -8, 8, 64, 256])))

    def call(self, start: int, end: int) -> Runtime:
        work = [self.work(start) for _ in range(self.random.randint(0, 2))]
        in_time = sorted(work, key=lambda node: (node.start_ns, -node.end_ns))
        return Runtime("cudaLaunchKernel", start, end, in_time)

    def work(self, launched: int) -> Device:
        event_type = self.random.choice(["Kernel", "Kernel", "Kernel", "Memcpy", "Memset"])
        name = self.random.choice(KERNELS) if event_type == "Kernel" else event_type
        start = launched + self.random.randint(5, 100)
        length = self.random.choice([5, 10, 40, 200])
        number, stream = self.random.randint(0, 1), self.random.randint(0, 2)
        return Device(name, start, start + length, event_type, number, stream)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("key", SortedKeys)
def test_made_trees_give_the_same_text(seed: int, key: SortedKeys) -> None:
    threads = TreeMaker(seed).threads()
    options: dict[str, Any] = {
        "sorted_by": key,
        "op_detail": seed % 2 == 0,
        "thread_sep": seed % 4 < 2,
        "time_unit": ("ns", "us", "ms", "s")[seed % 4],
        "views": ALL_BUT_MEMORY,
    }
    expected = paddle_text(as_paddle(threads), EXTRA, **options)
    text = summary_text(trace_of_threads(threads, user=EXTRA), **options)
    assert without_notes(text) == without_notes(expected)


@pytest.mark.parametrize("seed", range(8))
def test_made_trees_give_the_same_memory_once(seed: int) -> None:
    """Paddle's row of an operator repeats what its children have in rows of their own."""
    threads = TreeMaker(seed).threads()
    nodes = as_paddle(threads)
    theirs = profiler_statistic.StatisticData(nodes, EXTRA).memory_summary.allocated_items
    expected = {
        name: [item.allocation_count, item.free_count, item.allocation_size, item.free_size]
        for name, item in theirs["Place(cpu)"].items()
    }
    for operator in _all_of(threads, "Operator"):
        for child in operator.children_node:
            for event in child.mem_node:
                freed, size = event.increase_bytes < 0, abs(event.increase_bytes)
                expected[operator.name][freed] -= 1
                expected[operator.name][2 + freed] -= size
    rows = summary_tables(trace_of_threads(threads)).memory.rows
    ours = {row.name: list(row[3:]) for row in rows}
    assert ours == {name: numbers for name, numbers in expected.items() if any(numbers)}


def _all_of(threads: Mapping[int, Sequence[Host]], event_type: str) -> list[Host]:
    tops = [top for events in threads.values() for top in events]
    return [node for top in tops for node in top.all() if node.type == event_type]


class Recorded(SimpleNamespace):
    """A run that Paddle recorded, and the Trace of the file that it wrote."""

    profiler: Any
    trace: Trace


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    from stepscope.frameworks.paddle.files import read_pb as paddle_pb

    path: Path = tmp_path_factory.mktemp("paddle") / "t.pb"
    profiler = _train()
    profiler.profiler_result.save(str(path), "pb")
    return Recorded(profiler=profiler, trace=paddle_pb.read_paddle_pb(path))


class _Rows(paddle.io.Dataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return np.full(8, index, np.float32)

    def __len__(self) -> int:
        return 8


def _train() -> Any:
    """Record a small model that learns, from a loader; ranges, a static graph, a second thread."""
    model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
    adam = paddle.optimizer.Adam(learning_rate=1e-3, parameters=model.parameters())

    def beside() -> None:
        with paddle.profiler.RecordEvent("beside"):
            (paddle.ones([4, 4]) @ paddle.ones([4, 4])).sum()

    profiler = paddle.profiler.Profiler(
        targets=[paddle.profiler.ProfilerTarget.CPU],
        on_trace_ready=lambda _: None,
        profile_memory=True,
    )
    static = paddle.jit.to_static(paddle.nn.Linear(8, 8))
    profiler.start()
    for batch in paddle.io.DataLoader(_Rows(), batch_size=2, num_workers=0):
        with paddle.profiler.RecordEvent("my block"):
            loss = (model(static(batch)) ** 2).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        worker = threading.Thread(target=beside)
        worker.start()
        worker.join()
        profiler.step()
    profiler.stop()
    return profiler


@pytest.mark.parametrize("thread_sep", [False, True])
@pytest.mark.parametrize("key", SortedKeys)
def test_a_real_run_is_summed_up_as_paddle_does(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], key: SortedKeys, thread_sep: bool
) -> None:
    capsys.readouterr()
    recorded.profiler.summary(
        sorted_by=paddle.profiler.SortedKeys[key.name],
        thread_sep=thread_sep,
        time_unit="us",
        views=[paddle.profiler.SummaryView[view.name] for view in ALL_BUT_MEMORY],
    )
    expected = capsys.readouterr().out
    text = summary_text(
        recorded.trace, key, thread_sep=thread_sep, time_unit="us", views=ALL_BUT_MEMORY
    )
    assert "Thread: " in expected
    assert without_notes(f"{text}\n") == without_notes(expected)


def test_the_memory_of_a_real_run_adds_up_to_what_paddle_saw(recorded: Recorded) -> None:
    result = recorded.profiler.profiler_result
    events = []
    stack = list(result.get_data().values())
    while stack:
        node = stack.pop()
        stack += node.children_node
        events += node.mem_node
    table = summary_tables(recorded.trace).memory
    assert sum(row.increased_bytes for row in table.rows) == sum(e.increase_bytes for e in events)
    assert sum(row.allocations + row.frees for row in table.rows) == len(events)
    # A thread of Paddle's looks at the peak when its own share has never been higher: where others
    # have freed what it allocated, more was in use than Paddle's peak.
    assert table.peaks["cpu"].allocated_bytes == max(
        max(event.peak_allocated, event.current_allocated) for event in events
    )
    assert table.peaks["cpu"].reserved_bytes == max(
        max(event.peak_reserved, event.current_reserved) for event in events
    )
