"""Memory by slice, and its peak: on hand-made traces, and against the real torch.profiler."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from made_memory import Event, trace_with_memory
from made_trace import Call, trace_of_calls
from stepscope import export_trace, read_trace
from stepscope.analysis.memory.blocks import ALWAYS, NEVER
from stepscope.analysis.memory.timeline import memory_peak, memory_timeline
from stepscope.analysis.memory.usage import (
    default_device,
    devices,
    memory_events,
    memory_of_slices,
    with_memory,
)
from stepscope.trace.model import NO_SLICE, PRODUCER, SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

OUTER, INNER = Call("outer", 0, 100), Call("inner", 10, 50)


def by_name(trace: Trace) -> dict[str, tuple[int, int]]:
    memory = memory_of_slices(trace)
    return {
        trace.name_of(row): (int(memory.cpu_self[row]), int(memory.device_self[row]))
        for row in range(len(trace))
    }


def test_bytes_count_for_the_innermost_slice_only() -> None:
    trace = trace_with_memory([OUTER, INNER], [Event(5, 100), Event(20, 30), Event(60, -90)])
    assert by_name(trace) == {"outer": (10, 0), "inner": (30, 0)}


def test_every_device_but_the_cpu_is_a_device() -> None:
    events = [
        Event(20, 8, device="cpu"),
        Event(21, 64, device="cuda:1"),
        Event(22, 32, device="xpu"),
    ]
    assert by_name(trace_with_memory([INNER], events)) == {"inner": (8, 96)}


def test_threads_that_run_at_once_do_not_mix() -> None:
    calls = [Call("here", 0, 100), Call("there", 0, 100, track=1)]
    trace = trace_with_memory(calls, [Event(10, 1), Event(11, 2, track=1), Event(12, 4, track=2)])
    assert by_name(trace) == {"here": (1, 0), "there": (2, 0)}
    assert memory_of_slices(trace).leftover.tolist() == [2]


def test_what_happens_outside_all_slices_is_left_over() -> None:
    trace = trace_with_memory([INNER], [Event(5, 7), Event(20, 30), Event(70, -30)])
    memory = memory_of_slices(trace)
    assert memory.events.size[memory.leftover].tolist() == [7, -30]
    assert memory.cpu_self.sum() + memory.events.size[memory.leftover].sum() == 7


def test_python_frames_pass_memory_on_to_what_is_around_them() -> None:
    frame = Call("model.py(3): forward", 10, 50, category="python_function")
    alone = Call("main.py(1): <module>", 200, 300, category="python_function")
    trace = trace_with_memory([OUTER, frame, alone], [Event(20, 30), Event(250, -30)])
    assert by_name(trace) == {"outer": (30, 0), frame.name: (0, 0), alone.name: (0, 0)}
    assert memory_of_slices(trace).leftover.tolist() == [1]

    remaining = memory_of_slices(trace, without=())
    assert remaining.cpu_self.tolist() == [0, 30, -30]
    assert not len(remaining.leftover)


def test_any_kind_can_be_passed_over() -> None:
    module = Call("encoder.0", 10, 50, category="module")
    trace = trace_with_memory([OUTER, module], [Event(20, 30)])
    assert memory_of_slices(trace).cpu_self.tolist() == [0, 30]
    passed = memory_of_slices(trace, without=[SliceKind.PYTHON, SliceKind.MODULE])
    assert passed.cpu_self.tolist() == [30, 0]


def test_a_trace_without_memory_has_none() -> None:
    trace = trace_of_calls([OUTER, INNER])
    assert by_name(trace) == {"outer": (0, 0), "inner": (0, 0)}
    assert devices(trace) == []
    assert memory_peak(trace) is None


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (["cpu"], "cpu"),
        (["cpu", "cuda:0"], "cuda:0"),
        (["cpu", "cuda:1", "cuda:0"], "cuda:0"),
        (["cpu", "xpu:2"], "xpu:2"),
    ],
)
def test_the_default_device_is_the_first_gpu(recorded: list[str], expected: str) -> None:
    events = [Event(20, 8, device=device) for device in recorded]
    assert default_device(trace_with_memory([INNER], events)) == expected


def untold(trace: Trace) -> list[tuple[int, int, int]]:
    """Return the blocks that only the allocator's totals tell of."""
    blocks = memory_timeline(trace).blocks
    columns = zip(blocks.size, blocks.start_ns, blocks.end_ns, blocks.address, strict=True)
    return [(int(size), int(start), int(end)) for size, start, end, at in columns if at == 0]


def test_the_peak_has_what_only_the_allocator_knows_of() -> None:
    events = [
        Event(5, 10, address=1, allocated=110),
        Event(20, 20, address=2, allocated=130),
        Event(70, -10, address=1, allocated=120),
    ]
    trace = trace_with_memory([OUTER, INNER], events)
    peak = memory_peak(trace)
    assert peak is not None
    assert untold(trace) == [(100, ALWAYS, NEVER)]
    assert (peak.bytes, peak.time_ns, peak.device) == (130, 20_000, "cpu")
    assert peak.slice == 1


def test_the_peak_has_what_an_allocator_that_counts_from_the_start_does_not() -> None:
    # Ours for the CPU: 50 bytes that were there before are given back, and never counted.
    events = [
        Event(5, 10, address=1, allocated=10),
        Event(20, -50, address=9, allocated=10),
        Event(70, 20, address=2, allocated=30),
    ]
    trace = trace_with_memory([OUTER, INNER], events)
    peak = memory_peak(trace)
    assert peak is not None
    assert (peak.bytes, peak.time_ns) == (60, 5_000)
    assert untold(trace) == []


def test_what_only_the_allocator_knows_of_may_come_and_go() -> None:
    events = [
        Event(5, 10, address=1, device="cuda:0", allocated=110),
        Event(20, 20, address=2, device="cuda:0", allocated=930),  # 800 that no event tells of
        Event(70, -10, address=1, device="cuda:0", allocated=120),
    ]
    trace = trace_with_memory([OUTER, INNER], events)
    peak = memory_peak(trace)
    assert peak is not None
    assert (peak.bytes, peak.time_ns) == (930, 20_000)
    assert sorted(untold(trace)) == [(100, ALWAYS, NEVER), (800, 20_000, 70_000)]


def test_without_addresses_a_release_ends_the_last_block_of_its_size() -> None:
    sizes = [8, 8, 16, -8, -16, -8, -8]
    events = [Event(10 * i, size, address=0) for i, size in enumerate(sizes)]
    timeline = memory_timeline(trace_with_memory([OUTER], events))
    spans = zip(timeline.blocks.size, timeline.blocks.start_ns, timeline.blocks.end_ns, strict=True)
    assert timeline.by_size
    assert sorted((int(a), int(b), int(c)) for a, b, c in spans) == [
        (8, ALWAYS, 60_000),
        (8, 0, 50_000),
        (8, 10_000, 30_000),
        (16, 20_000, 40_000),
    ]
    assert timeline.peak().bytes == 40


def test_events_of_one_microsecond_keep_their_order(tmp_path: Path) -> None:
    """Kineto wrote whole µs until 2023, and no addresses until 2022."""
    sizes = [512, 4096, -4096, 1024]
    values = [
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1_000_000 + 7 * (i > 2)}
        | {"args": {"Device Type": 1, "Device Id": 0, "Bytes": size}}
        for i, size in enumerate(sizes)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": values}))
    peak = memory_peak(read_trace(path))
    assert peak is not None
    assert (peak.device, peak.bytes) == ("cuda:0", 4608)


def test_without_the_allocators_word_the_peak_is_a_sum() -> None:
    # 50 bytes that were there before are given back first: the level cannot have been below 0.
    events = [Event(5, -50, address=1), Event(120, 20, address=2), Event(130, 40, address=3)]
    peak = memory_peak(trace_with_memory([OUTER], events))
    assert peak is not None
    assert (peak.bytes, peak.time_ns, peak.slice) == (60, 130_000, NO_SLICE)


def test_the_peak_is_of_one_device() -> None:
    events = [Event(5, 10, allocated=10), Event(6, 99, device="cuda:0", allocated=99)]
    trace = trace_with_memory([OUTER], events)
    assert [
        memory_peak(trace, name) and memory_peak(trace, name).bytes for name in ("cpu", "cuda:0")
    ] == [10, 99]
    assert memory_peak(trace, "cuda:7") is None


class TestTorchProfiler:
    """The instants of torch.profiler's JSON become the same table, and give torch's sums."""

    @pytest.fixture(params=["mlp", "cnn", "transformer"])
    def run(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[object, Trace]:
        pytest.importorskip("torch")
        from torch.profiler import ProfilerActivity, profile

        from torch_steps import training_step

        step = training_step(request.param)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            step()
            step()
        path = tmp_path / "torch.json"
        profiler.export_chrome_trace(str(path))
        return profiler, read_trace(path)

    def test_self_memory_by_name_is_torchs(self, run: tuple[object, Trace]) -> None:
        profiler, trace = run
        theirs = {
            event.key: event.self_cpu_memory_usage
            for event in profiler.key_averages()  # type: ignore[attr-defined]
            if event.self_cpu_memory_usage
        }
        ours: Counter[str] = Counter()
        memory = memory_of_slices(trace)
        for row in memory.cpu_self.nonzero()[0]:
            ours[trace.name_of(row)] += int(memory.cpu_self[row])
        ours["[memory]"] += int(memory.events.size[memory.leftover].sum())
        assert theirs
        assert {name: size for name, size in ours.items() if size} == theirs

    def test_the_table_says_what_the_instants_said(self, run: tuple[object, Trace]) -> None:
        trace = with_memory(run[1])
        memory = trace.memory
        assert devices(trace) == ["cpu"]
        assert len(memory) == sum(trace.strings[i] == "[memory]" for i in trace.marks.name)
        assert (memory.allocated[1:] - memory.allocated[:-1]).tolist() == memory.size[1:].tolist()
        highest = memory_peak(trace)
        assert highest is not None
        assert highest.bytes == memory.allocated.max()

    def test_a_filled_table_is_left_as_it_is(self, run: tuple[object, Trace]) -> None:
        filled = with_memory(run[1])
        assert with_memory(filled) is filled
        assert memory_events(filled) is filled.memory
        assert memory_events(replace(filled, marks=run[1].marks)) is filled.memory


def written_and_read(names: list[str], path: Path) -> list[str]:
    """Return the devices of a recording's memory, once it was a file in torch's format."""
    trace = trace_with_memory([OUTER], [Event(20 + i, 64, device=n) for i, n in enumerate(names)])
    export_trace(replace(trace, info=replace(trace.info, producer=PRODUCER)), path)
    return devices(read_trace(path))


def test_every_kind_of_device_is_written_and_read_back(tmp_path: Path) -> None:
    names = ["cpu", "cuda:1", "device7:3", "hpu:0", "mps:0", "mtia:2", "privateuseone:0", "xpu"]
    assert written_and_read(names, tmp_path / "t.json") == names


def test_a_backends_own_name_is_not_the_cpus(tmp_path: Path) -> None:
    assert written_and_read(["npu:1"], tmp_path / "t.json") == ["privateuseone:1"]
