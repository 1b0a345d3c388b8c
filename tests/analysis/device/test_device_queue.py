"""Queues between host and device: how long launched work waits, and how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from device_reference import call_of, events_in, trace_in, work_of
from made_trace import Call, trace_of_calls
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.device.queue import launch_delays, launch_queues, queue_length

if TYPE_CHECKING:
    from pathlib import Path

GPU = ["10", "0", "0", "0"]


def launched(at: int, start: int, end: int, correlation: int, track: int = 1) -> list[Call]:
    return [
        Call("cudaLaunchKernel", at, at + 2, "cuda_runtime", correlation=correlation),
        Call(f"k{correlation}", start, end, "kernel", track, correlation=correlation),
    ]


TWO_STREAMS = [
    *launched(0, 10, 20, 1),
    *launched(3, 20, 30, 2),
    *launched(6, 12, 40, 3, track=2),
    *launched(50, 51, 60, 4),  # starts before the call has returned
    Call("unlaunched", 70, 80, "kernel", 1, correlation=9),
]


def test_delays_and_what_stood_before() -> None:
    rows = launch_delays(trace_of_calls(TWO_STREAMS, pids=GPU)).to_polars().sort("name")
    assert rows["name"].to_list() == ["k1", "k2", "k3", "k4"]
    assert rows["delay_ns"].to_list() == [10_000, 17_000, 6_000, 1_000]
    assert rows["after_call_ns"].to_list() == [8_000, 15_000, 4_000, -1_000]
    assert rows["ahead"].to_list() == [0, 1, 0, 0]


def test_the_length_of_the_queue() -> None:
    trace = trace_of_calls(TWO_STREAMS, pids=GPU)
    queue = queue_length(trace, "0")
    assert (queue.time_ns // 1000).tolist() == [0, 3, 6, 10, 12, 20, 50, 51]
    assert queue.length.tolist() == [1, 2, 3, 2, 1, 0, 1, 0]
    rows = launch_queues(trace)
    assert rows.stream == ("all", "21", "22")
    assert rows.launches.tolist() == [4, 3, 1]
    assert rows.unknown.tolist() == [1, 1, 0]
    assert rows.longest.tolist() == [3, 2, 1]
    assert rows.max_delay_ns.tolist() == [17_000, 17_000, 6_000]
    assert rows.mean_length[0] == (10 + 17 + 6 + 1) / 51
    assert rows.empty_ns.tolist() == [30_000, 30_000, 0]


def test_all_of_a_graph_enters_the_queue_at_once() -> None:
    calls = [
        Call("cudaGraphLaunch", 0, 4, "cuda_runtime", correlation=7),
        *(Call("k", at, at + 5, "kernel", 1, correlation=7) for at in (10, 20, 30)),
    ]
    assert launch_queues(trace_of_calls(calls, pids=GPU)).longest.tolist() == [3]


def test_a_stream_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"'99' of device '0'; there is 0/21, 0/22"):
        queue_length(trace_of_calls(TWO_STREAMS, pids=GPU), "0", "99")


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_a_slow_count_finds_it(path: Path) -> None:
    trace = trace_in(path)
    events = events_in(path)
    calls = call_of(events)
    expected = [(calls[w.correlation], w) for w in work_of(events, trace) if w.correlation in calls]
    delays = launch_delays(trace)
    assert delays.delay_ns.tolist() == [work.start - call.start for call, work in expected]
    assert delays.after_call_ns.tolist() == [work.start - call.end for call, work in expected]
    rows = launch_queues(trace)
    for i, device in enumerate(rows.device):
        if i and rows.device[i - 1] == device:
            continue  # the first row of a device holds all its streams
        own = [(call, work) for call, work in expected if work.device == device]
        changes = [(min(call.start, work.start), 1) for call, work in own]
        changes += [(work.start, -1) for _, work in own]
        length = longest = 0
        for at, change in sorted(changes):  # who leaves at a moment leaves before others come
            del at
            length += change
            longest = max(longest, length)
        assert rows.launches[i] == len(own)
        assert rows.longest[i] == longest
        if own:
            first, last = min(changes)[0], max(changes)[0]
            waited = sum(max(0, work.start - call.start) for call, work in own)
            assert rows.mean_length[i] == pytest.approx(waited / max(last - first, 1))
