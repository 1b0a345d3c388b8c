"""Paddle's summary of a PyTorch program, recorded here or read from a file."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest

import stepscope
from device_reference import length, merged
from made_trace import Bytes, Call, trace_of_calls
from sample_traces import ONE_RANK, json_events, sample_name, sample_path
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.event_types import event_types
from stepscope.frameworks.paddle.views.summary import summary_text
from stepscope.frameworks.paddle.views.summary_tables import SummaryView, summary_tables
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

US = 1000


def test_operators_steps_and_kernels_of_torch_have_their_rows() -> None:
    trace = trace_of_calls(
        [
            Call("ProfilerStep#1", 0, 100, "user_annotation"),
            Call("aten::linear", 10, 60),
            Call("aten::addmm", 20, 50),
            Call("cudaLaunchKernel", 30, 35, "cuda_runtime", correlation=1),
            Call("gemm", 40, 90, "kernel", track=1, correlation=1),
            Call("Optimizer.step#SGD.step", 70, 80, "user_annotation"),
            Call("my range", 85, 95, "user_annotation"),
        ],
        [Bytes(25, 64), Bytes(75, -64)],
        pids=["10", "0"],
    )
    tables = summary_tables(trace)
    assert [
        (row.level, row.name, row.cpu_ns, row.gpu.total_ns) for row in tables.operators.rows
    ] == [
        (0, "aten::linear", 50 * US, 50 * US),
        (1, "aten::addmm", 30 * US, 50 * US),
        (2, "gemm", 0, 50 * US),
    ]
    assert {row.name: row.cpu_ns for row in tables.model.rows} == {
        "ProfileStep": 100 * US,
        "Optimization": 10 * US,
        "Others": 90 * US,
    }
    assert [row.name for row in tables.user_defined.rows] == ["my range"]
    assert tables.device.rows[2] == ("GPU0", 0.5)
    assert [(row.name, row.increased_bytes) for row in tables.memory.rows] == [
        ("aten::linear", 64),
        ("Optimizer.step#SGD.step", -64),
    ]


def test_a_recording_of_torch_is_summed_up() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = stepscope.schedule(wait=0, warmup=1, active=2, repeat=1)
    options = {"profile_memory": True, "record_shapes": True}
    with stepscope.profile(schedule=schedule, **options) as profiler:
        for _ in range(3):
            with stepscope.record_function("my range"):
                model(torch.ones(2, 4)).sum().backward()
            sgd.step()
            sgd.zero_grad()
            profiler.step()
    tables = summary_tables(profiler.trace)
    by_name = {row.name: row for row in tables.operators.rows if not row.level}
    assert by_name["aten::linear"].calls == 2
    assert by_name["aten::linear"].flops == 2 * 2 * 2 * 4 * 2
    averages = {average.key: average.cpu_time_total for average in profiler.key_averages()}
    assert by_name["aten::linear"].cpu_ns == pytest.approx(1000 * averages["aten::linear"])
    assert {"ProfileStep", "Optimization", "Others"} <= {row.name for row in tables.model.rows}
    assert ("my range", 2) in [(row.name, row.calls) for row in tables.user_defined.rows]
    memory = profiler.trace.memory
    assert sum(row.increased_bytes for row in tables.memory.rows) == memory.size.sum()
    assert "Memory Summary - Place(cpu)" in summary_text(profiler.trace)


@pytest.mark.parametrize("name", ["made_language_model", "made_loader", "h200_language_model"])
def test_the_time_of_devices_is_that_of_the_file(name: str) -> None:
    """In these, nothing runs at the same time as something of another type."""
    path = sample_path(name)
    busy: list[tuple[int, int]] = []
    for event in json_events(path):
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            start, duration = Decimal(event["ts"]) * US, Decimal(event["dur"]) * US
            busy.append((int(start), int(start + duration)))
    rows = summary_tables(stepscope.read_trace(path)).overview.rows
    on_device = [row.time_ns for row in rows if row.on_device and row.event_type != "Communication"]
    assert sum(on_device) == length(merged(busy)) > 0


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_real_traces_add_up(path: Path) -> None:
    trace = stepscope.read_trace(path)
    tables = summary_tables(trace)
    slices = trace.slices
    kernels = slices.duration_ns[slices.kind == SliceKind.KERNEL]
    assert sum(row.gpu.total_ns for row in tables.kernels.rows) == kernels.sum()
    assert sum(row.calls for row in tables.kernels.rows) == len(kernels)
    operators = np.flatnonzero(event_types(trace) == TracerEventType.Operator)
    tops = [row for row in tables.operators.rows if not row.level]
    assert sum(row.calls for row in tops) == len(operators)
    assert sum(row.cpu_ns for row in tops) == slices.duration_ns[operators].sum()
    text = summary_text(trace, views=SummaryView.OperatorView, thread_sep=True)
    assert ("Thread: " in text) == bool(len(operators))


def test_operators_within_operators_are_inner_in_old_traces_of_torch_too() -> None:
    """Kineto's category was "Operator" then, Paddle's word for the outermost ones."""
    calls = [Call("aten::linear", 0, 50, "Operator"), Call("aten::addmm", 10, 40, "Operator")]
    rows = summary_tables(trace_of_calls(calls)).operators.rows
    assert [(row.level, row.name) for row in rows] == [(0, "aten::linear"), (1, "aten::addmm")]
