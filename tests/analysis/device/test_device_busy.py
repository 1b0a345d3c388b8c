"""How long devices worked: exact unions, by device, stream and step."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from device_reference import (
    busy,
    by_device,
    events_in,
    length,
    merged,
    sample_trace,
    shared,
    trace_in,
    work_of,
)
from made_trace import Call, trace_of_calls
from sample_traces import H200, ONE_RANK, json_events, sample_name, sample_path
from stepscope.analysis.device.busy import device_busy, step_busy, stream_busy
from stepscope.analysis.steps.steps import step_table
from stepscope.analysis.work.work import WorkKind, device_work, is_communication

if TYPE_CHECKING:
    from pathlib import Path

GPU = ["10", "0", "0", "1"]  # a process, two streams of device 0, one of device 1


def kernel(name: str, start: int, end: int, track: int = 1, category: str = "kernel") -> Call:
    return Call(name, start, end, category, track)


def test_no_moment_counts_twice_whatever_overlaps() -> None:
    calls = [
        Call("aten::mm", 0, 100),
        kernel("a", 10, 30),
        kernel("b", 20, 40),  # on the same stream, over the end of a
        kernel("c", 35, 50, track=2),
        kernel("Memcpy HtoD", 60, 70, track=2, category="gpu_memcpy"),
        kernel("range", 0, 90, category="gpu_user_annotation"),  # holds work, is none
        kernel("other device", 0, 5, track=3),
    ]
    rows = device_busy(trace_of_calls(calls, pids=GPU))
    assert rows.device == ("0", "1")
    assert rows.busy_ns.tolist() == [50_000, 5_000]
    assert rows.idle_ns.tolist() == [50_000, 95_000]
    assert rows.summed_ns.tolist() == [65_000, 5_000]
    assert rows.compute_ns.tolist() == [40_000, 5_000]
    assert rows.copy_ns.tolist() == [10_000, 0]
    assert rows.streams.tolist() == [2, 1]
    streams = stream_busy(trace_of_calls(calls, pids=GPU))
    assert streams.busy_ns.tolist() == [30_000, 25_000, 5_000]
    assert streams.summed_ns.tolist() == [40_000, 25_000, 5_000]


def test_a_step_has_what_ran_between_its_begin_and_its_end() -> None:
    calls = [
        Call("ProfilerStep#4", 0, 50, "user_annotation"),
        Call("ProfilerStep#5", 50, 100, "user_annotation"),
        kernel("a", 40, 70),
    ]
    rows = step_busy(trace_of_calls(calls, pids=GPU))
    assert rows.step.tolist() == [4, 5]
    assert rows.busy_ns.tolist() == [10_000, 20_000]
    assert rows.idle_ns.tolist() == [40_000, 30_000]


def test_a_trace_without_device_work_has_no_rows() -> None:
    trace = trace_of_calls([Call("aten::mm", 0, 100)])
    assert len(device_work(trace)) == 0
    for table in (device_busy(trace), stream_busy(trace), step_busy(trace)):
        assert len(table) == 0
        assert table.to_polars().height == 0


@pytest.mark.parametrize(
    ("name", "communicates"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", True),
        ("void rcclGenericKernel<1, false>", True),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", True),
        ("void vllm::cross_device_reduce_2stage<__half, 8>", True),
        ("void deep_ep::intranode::dispatch<8>", True),
        ("void cudnn::BlockAllReduce<float>", False),
        ("volta_sgemm_128x64_nn", False),
        ("void at::native::reduce_kernel<512, 1>", False),
    ],
)
def test_communication_is_told_by_the_name(name: str, communicates: bool) -> None:
    assert is_communication(name) is communicates


@pytest.mark.parametrize("name", ["made_language_model", "made_two_gpus", *H200])
def test_busy_time_as_counted_in_the_file(name: str) -> None:
    path = sample_path(name)
    work: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in json_events(path):
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            start, duration = Decimal(event["ts"]) * 1000, Decimal(event["dur"]) * 1000
            work[str(event["pid"])].append((int(start), int(start + duration)))
    rows = device_busy(trace_in(path))
    expected = {device: length(merged(intervals)) for device, intervals in work.items()}
    assert dict(zip(rows.device, rows.busy_ns.tolist(), strict=True)) == expected


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_a_slow_sweep_finds_it(path: Path) -> None:
    trace = trace_in(path)
    work = work_of(events_in(path), trace)
    rows = device_busy(trace)
    expected = {device: length(busy(events)) for device, events in by_device(work).items()}
    assert dict(zip(rows.device, rows.busy_ns.tolist(), strict=True)) == expected
    assert (rows.busy_ns + rows.idle_ns == rows.window_ns).all()
    streams = stream_busy(trace)
    tracks = {event.track: [] for event in work}
    for event in work:
        tracks[event.track].append(event)
    by_stream = sorted(length(busy(events)) for events in tracks.values())
    assert sorted(streams.busy_ns.tolist()) == by_stream
    steps, table = step_table(trace), step_busy(trace)
    assert len(table) == len(steps) * len(rows)
    for i, device in enumerate(table.device):
        window = [(int(table.start_ns[i]), int(table.start_ns[i] + table.duration_ns[i]))]
        assert table.busy_ns[i] == shared(busy(by_device(work)[device]), window)


def test_mtia_waits_are_no_work_and_its_dma_are_copies() -> None:
    trace = sample_trace("made_mtia")
    work = device_work(trace)
    names = {
        trace.name_of(int(row)): WorkKind(int(kind))
        for row, kind in zip(work.rows, work.kind, strict=True)
    }
    assert names == {
        "dma_request": WorkKind.COPY,
        "matrix": WorkKind.COMPUTE,
        "vector": WorkKind.COMPUTE,
    }
