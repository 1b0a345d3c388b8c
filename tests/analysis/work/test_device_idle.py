"""Why devices were idle: every gap is divided by its reasons, to the ns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from device_reference import (
    Event,
    busy,
    by_device,
    call_of,
    events_in,
    sample_trace,
    shared,
    trace_in,
    work_of,
)
from made_trace import Call, trace_of_calls
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.work.idle import (
    HIDDEN,
    LONGEST_AFTER_SYNC_NS,
    LONGEST_LAUNCH_NS,
    IdleReason,
    device_idle,
    idle_gaps,
)
from stepscope.analysis.work.work import device_work
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

GPU = ["10", "10", "0", "0"]  # two threads of a process, two streams of a device
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def call(name: str, start: int, end: int, correlation: int = -1, track: int = 0) -> Call:
    return Call(name, start, end, "cuda_runtime", track, correlation=correlation)


def kernel(start: int, end: int, correlation: int, category: str = "kernel") -> Call:
    return Call("k", start, end, category, 2, correlation=correlation)


def reasons(calls: list[Call]) -> dict[str, int]:
    """Return the idle time of the one device in µs, by reason."""
    idle = device_idle(trace_of_calls(calls, pids=GPU))
    (parts,) = idle.parts_ns.tolist()
    assert sum(parts) == idle.idle_ns[0]
    return {IdleReason(i).words: ns // 1000 for i, ns in enumerate(parts) if ns}


FIRST = [call("cudaLaunchKernel", 0, 5, 1), kernel(10, 20, 1)]


def test_the_host_was_busy_with_other_things() -> None:
    later = [Call("aten::mm", 15, 65), call("cudaLaunchKernel", 50, 55, 2), kernel(60, 65, 2)]
    assert reasons([*FIRST, *later]) == {"before first": 10, "host": 30, "launch": 10}


def test_work_that_was_launched_before_the_gap_stood_in_the_queue() -> None:
    later = [call("cudaLaunchKernel", 6, 9, 2), kernel(23, 30, 2)]
    assert reasons([*FIRST, *later]) == {"before first": 10, "queued": 3}


def test_a_launch_that_goes_on_when_the_gap_begins_is_its_reason() -> None:
    later = [call("cudaLaunchKernel", 15, 22, 2), kernel(25, 30, 2)]
    assert reasons([*FIRST, *later]) == {"before first": 10, "launch": 5}


def test_the_device_ran_dry_while_the_host_waited_for_it() -> None:
    later = [
        call("cudaStreamSynchronize", 8, 24),
        call("cudaLaunchKernel", 50, 55, 2),
        kernel(60, 65, 2),
    ]
    assert reasons([*FIRST, *later]) == {
        "before first": 10,
        "synchronisation": 4,
        "after sync": 26,
        "launch": 10,
    }


def test_a_synchronisation_of_an_idle_device_is_not_why_it_is_idle() -> None:
    later = [
        call("cudaDeviceSynchronize", 30, 32),
        call("cudaLaunchKernel", 50, 55, 2),
        kernel(60, 65, 2),
    ]
    expected = {"before first": 10, "host": 28, "synchronisation": 2, "launch": 10}
    assert reasons([*FIRST, *later]) == expected


def test_a_copy_that_returns_when_it_is_done_synchronises() -> None:
    copy = [call("cudaMemcpyAsync", 20, 44, 2), kernel(25, 40, 2, "gpu_memcpy")]
    later = [call("cudaLaunchKernel", 50, 55, 3), kernel(60, 65, 3)]
    assert reasons([*FIRST, *copy, *later]) == {
        "before first": 10,
        "launch": 10,
        "synchronisation": 5 + 4,
        "after sync": 6,
    }


def test_data_was_loaded_meanwhile() -> None:
    later = [
        Call(LOADER, 15, 40, "user_annotation"),
        Call("enumerate(DataLoader)#other", 22, 30, "user_annotation", track=1),  # not our thread
        call("cudaLaunchKernel", 50, 55, 2),
        kernel(60, 65, 2),
    ]
    expected = {"before first": 10, "data loading": 20, "host": 10, "launch": 10}
    assert reasons([*FIRST, *later]) == expected


def test_what_launched_the_next_work_may_not_be_in_the_trace() -> None:
    assert reasons([*FIRST, kernel(60, 65, 99)]) == {"before first": 10, "unknown": 40}


def test_the_end_of_the_recording_comes_after_the_last_work() -> None:
    assert reasons([*FIRST, Call("aten::mm", 30, 90)]) == {"before first": 10, "after last": 70}


def test_kernels_of_one_graph_wait_in_the_queue() -> None:
    graph = [call("cudaGraphLaunch", 22, 26, 7), kernel(30, 40, 7), kernel(42, 50, 7)]
    expected = {"before first": 10, "host": 2, "launch": 8, "queued": 2}
    assert reasons([*FIRST, *graph]) == expected


def test_a_gap_names_the_work_that_ends_it_and_who_launched_it() -> None:
    later = [Call("aten::mm", 15, 65), call("cudaLaunchKernel", 50, 55, 2), kernel(60, 65, 2)]
    frame = idle_gaps(trace_of_calls([*FIRST, *later], pids=GPU)).to_polars()
    assert frame["duration_ns"].to_list() == [10_000, 40_000]
    assert frame["before_name"].to_list() == ["k", "k"]
    assert frame["operator"].to_list() == ["", "aten::mm"]
    assert frame["reason"].to_list() == ["before first", "host"]


# Held against a loop that walks every gap from event to event.


def waits_of(events: list[Event], work: list[Event]) -> list[Event]:
    calls = call_of(events)
    waits = [
        event
        for event in events
        if event.kind == SliceKind.RUNTIME
        and (
            "synchronize" in event.name.lower()
            or (event.name.startswith(("cudaMemcpy", "hipMemcpy")) and "Async" not in event.name)
        )
    ]
    for copy in work:
        starter = calls.get(copy.correlation)
        is_copy = copy.kind == SliceKind.MEMCPY or copy.name == "dma_request"
        if is_copy and starter is not None and starter.end >= copy.end:
            waits.append(starter)
    return waits


def slow_reasons(trace: Trace, events: list[Event]) -> dict[str, list[int]]:
    work = work_of(events, trace)
    calls = call_of(events)
    waits = waits_of(events, work)
    loads = [e for e in events if e.name.startswith("enumerate(DataLoader)#")]
    first = min([trace.info.start_ns, *(event.start for event in work)])
    last = max([trace.info.end_ns, *(event.end for event in work)])
    values = {}
    for device, own in by_device(work).items():
        parts = [0] * len(IdleReason)
        stretches = [(first, first), *busy(own), (last, last)]
        starting = {}
        for event in own:
            if event.end > event.start:
                starting.setdefault(event.start, event)
        for i, (_, begin) in enumerate(stretches[:-1]):
            end = stretches[i + 1][0]
            if begin >= end:
                continue
            if i + 2 == len(stretches):
                parts[IdleReason.AFTER_LAST] += end - begin
            elif i == 0:
                parts[IdleReason.BEFORE_FIRST] += end - begin
            else:
                starter = calls.get(starting[end].correlation)
                _walk(parts, (begin, end), starter, (waits, loads), stretches)
        values[device] = parts
    return values


def _walk(
    parts: list[int],
    gap: tuple[int, int],
    starter: Event | None,
    doing: tuple[list[Event], list[Event]],
    worked: list[tuple[int, int]],
) -> None:
    """Cut a gap wherever something begins or ends, and ask of each piece what it is."""
    begin, end = gap
    waits, loads = doing
    if starter is None:
        parts[IdleReason.UNKNOWN] += end - begin
        return
    mine = [
        e for e in (*waits, *loads) if e.track == starter.track and e.end > begin and e.start < end
    ]
    late = starter.end + LONGEST_LAUNCH_NS
    cuts = {begin, end, starter.start, late, *(e.start for e in mine), *(e.end for e in mine)}
    inside = sorted(at for at in cuts if begin <= at <= end)
    ran_dry = any(e.start <= begin < e.end for e in waits if e.track == starter.track)
    own_ns = 0
    for one, other in pairwise(inside):
        now = [e for e in mine if e.start <= one and other <= e.end]
        if starter.end <= begin or one >= late:
            reason = IdleReason.QUEUED
        elif one >= starter.start:
            reason = IdleReason.SYNCHRONISATION if starter in waits else IdleReason.LAUNCH
        elif any(e in waits for e in now):
            reason = IdleReason.SYNCHRONISATION
        elif now:
            reason = IdleReason.DATA_LOADING
        else:
            own_ns += other - one
            continue
        parts[reason] += other - one
    soon = own_ns <= LONGEST_AFTER_SYNC_NS
    if not soon and ran_dry:
        soon = shared(worked, [(begin - own_ns, begin)]) >= HIDDEN * own_ns
    parts[IdleReason.AFTER_SYNC if ran_dry and soon else IdleReason.HOST] += own_ns


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_a_slow_walk_finds_it(path: Path) -> None:
    trace = trace_in(path)
    work = device_work(trace)
    idle = device_idle(trace, work)
    assert idle.idle_ns.tolist() == device_busy(trace, work).idle_ns.tolist()
    assert idle.parts_ns.sum(axis=1).tolist() == idle.idle_ns.tolist()
    assert (idle_gaps(trace, work).parts_ns >= 0).all()
    expected = slow_reasons(trace, events_in(path))
    assert dict(zip(idle.device, idle.parts_ns.tolist(), strict=True)) == expected


def test_a_loader_without_workers_is_what_this_program_waited_for() -> None:
    idle = device_idle(sample_trace("made_loader"))
    assert idle.parts_ns[0].argmax() == IdleReason.DATA_LOADING
