"""What is recorded of a device where asked for: its power, and who waited for what."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope import ProfilerActivity, profile
from stepscope.analysis.device.counters import counter_means, device_counters
from stepscope.analysis.device.power import device_power
from stepscope.trace.model import SliceKind

torch = pytest.importorskip("torch")

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def test_power_of_a_busy_device() -> None:
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    with profile(activities=BOTH, power=True) as prof:
        for _ in range(4):
            for _ in range(200):
                matrix @ matrix
            torch.cuda.synchronize()
            prof.step()
    (power,) = device_power(prof.trace)
    assert power.device == str(torch.cuda.current_device())
    assert power.mean_watts is not None
    assert 20 < power.mean_watts < 2_000
    assert power.joules is not None
    assert power.joules == pytest.approx(power.mean_watts * power.over_ns / 1e9)
    assert power.mean_sm_mhz is not None
    assert power.most_sm_mhz is not None
    assert 100 < power.mean_sm_mhz <= power.most_sm_mhz
    assert power.most_celsius is not None
    assert 10 < power.most_celsius < 120


def test_who_waited_for_what() -> None:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    matrix = torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    with profile(activities=BOTH, device_records="sync,events") as prof:
        with torch.cuda.stream(first):
            matrix @ matrix
            event = first.record_event()
        second.wait_event(event)
        with torch.cuda.stream(second):
            matrix @ matrix
        second.synchronize()
        event.synchronize()
        torch.cuda.synchronize()
    trace = prof.trace
    rows = np.flatnonzero(trace.slices.kind == SliceKind.SYNC).tolist()
    named_args = [
        (trace.name_of(row), trace.slices.args.of_row(row, trace.strings)) for row in rows
    ]
    names = [name for name, _ in named_args]
    assert {"Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync"} <= set(names)
    kernels = np.flatnonzero(trace.slices.kind == SliceKind.KERNEL).tolist()
    streams = [trace.slices.args.of_row(row, trace.strings)["stream"] for row in kernels]
    on_first, on_second = streams[0], streams[-1]
    wait = dict(named_args)["Stream Wait Event"]
    assert (wait["stream"], wait["wait_on_stream"]) == (on_second, on_first)
    assert dict(named_args)["Event Sync"]["wait_on_stream"] == on_first
    assert all(trace.slices.duration_ns[row] >= 0 for row in rows)
    events = [
        trace.marks.args.of_row(i, trace.strings)
        for i, name in enumerate(trace.marks.name.tolist())
        if trace.strings[name] == "CUDA event"
    ]
    assert on_first in [event["stream"] for event in events]


def test_memory_of_the_driver() -> None:
    torch.cuda.empty_cache()
    size = 96 << 20
    with profile(activities=BOTH, device_records="memory") as prof:
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        del tensor
        torch.cuda.empty_cache()
    trace = prof.trace
    args = [
        (trace.strings[name], trace.marks.args.of_row(i, trace.strings).get("bytes", 0))
        for i, name in enumerate(trace.marks.name.tolist())
    ]
    assert [name for name, count in args if count >= size] == [
        "Allocate (Device)",
        "Release (Device)",
    ]


def test_nothing_more_than_was_asked_for() -> None:
    with profile(activities=BOTH) as prof:
        torch.ones(8, device="cuda").sum().item()
    assert SliceKind.SYNC not in prof.trace.slices.kind
    assert not len(prof.trace.marks) or "gpu_power" not in prof.trace.strings.decode_all()


def test_hardware_counters_or_one_line_why_not(capfd: pytest.CaptureFixture[str]) -> None:
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    with profile(activities=BOTH, counters=True) as prof:
        for _ in range(100):
            matrix @ matrix
        torch.cuda.synchronize()
    stderr = capfd.readouterr().err
    assert SliceKind.KERNEL in prof.trace.slices.kind
    means = {mean.name: mean for mean in counter_means(prof.trace)}
    if not means:
        assert stderr.count("hardware counters are not recorded") == 1
        pytest.skip(stderr.strip())
    assert 0.2 < means["SM active"].most <= 1.01
    work = np.flatnonzero(prof.trace.slices.kind == SliceKind.KERNEL)
    begin, end = prof.trace.slices.start_ns[work[0]], prof.trace.slices.end_ns[work[-1]]
    active = next(curve for curve in device_counters(prof.trace) if curve.name == "SM active")
    busy = active.time_ns[active.values > 50]
    assert begin - 5_000_000 <= busy[0]
    assert busy[-1] <= end + 5_000_000
