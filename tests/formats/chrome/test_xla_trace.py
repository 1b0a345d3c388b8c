"""What JAX and others write through XLA: tracks tell what is a device, and what is work on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import stepscope
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

NAMES = {
    1: ("/device:GPU:0", {14: "Stream #14(Compute,MemcpyD2H)", 20: "XLA Ops", 21: "Steps"}),
    2: ("/device:TPU:3", {3: "XLA Ops", 4: "XLA Modules"}),
    9: ("/host:CPU", {5: "python"}),
}


def names() -> list[dict[str, Any]]:
    collected: list[dict[str, Any]] = []
    for pid, (process, threads) in NAMES.items():
        collected.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}})
        collected += [
            {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in threads.items()
        ]
    return collected


def event(pid: int, tid: int, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    events = [
        event(9, 5, "$train.py:12 step", 0, 100),
        event(9, 5, "cuLaunchKernel", 10, 5, correlation_id="77"),
        event(9, 5, "cuMemcpyDtoHAsync_v2", 20, 5, correlation_id=78),
        event(1, 14, "loop_add_fusion", 30, 20, hlo_op="fusion.1", correlation_id="77"),
        event(1, 14, "MemcpyD2H", 60, 10, correlation_id=78),
        event(1, 20, "fusion.1", 30, 20),
        event(1, 21, "1", 0, 100),
        event(2, 3, "fusion.7", 40, 30),
        event(2, 4, "jit_step", 40, 30),
    ]
    path: Path = tmp_path_factory.mktemp("xla") / "host.trace.json"
    expected = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    path.write_text(json.dumps(expected | {"traceEvents": [*names(), *events]}))
    return stepscope.read_trace(path)


def test_streams_have_the_work_and_other_lines_repeat_it(trace: Trace) -> None:
    work = device_work(trace)
    by_name = {
        trace.name_of(int(row)): WorkKind(int(kind))
        for row, kind in zip(work.rows, work.kind, strict=True)
    }
    assert by_name == {
        "loop_add_fusion": WorkKind.COMPUTE,
        "MemcpyD2H": WorkKind.COPY,
        "fusion.7": WorkKind.COMPUTE,
    }
    busy = device_busy(trace)
    assert dict(zip(busy.device, busy.busy_ns.tolist(), strict=True)) == {"0": 30_000, "3": 30_000}


def test_work_is_tied_to_the_call_that_launched_it(trace: Trace) -> None:
    work = device_work(trace)
    calls = {
        trace.name_of(int(row)): trace.name_of(int(call)) if call >= 0 else ""
        for row, call in zip(work.rows, work.call, strict=True)
    }
    assert calls["loop_add_fusion"] == "cuLaunchKernel"
    assert calls["MemcpyD2H"] == "cuMemcpyDtoHAsync_v2"
    assert calls["fusion.7"] == ""


def test_kernels_have_their_times_and_the_host_its_frames(trace: Trace) -> None:
    assert dict(
        zip(kernel_table(trace).name, kernel_table(trace).total_ns.tolist(), strict=True)
    ) == {"fusion.7": 30_000, "loop_add_fusion": 20_000}
    kinds = {trace.name_of(row): trace.slices.kind[row] for row in range(len(trace))}
    assert kinds["$train.py:12 step"] == SliceKind.PYTHON
    assert kinds["jit_step"] == SliceKind.DEVICE_RANGE
