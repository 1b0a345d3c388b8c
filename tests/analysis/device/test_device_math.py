"""The share of tensor cores, and the FLOP/s that operators achieved on a device."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from device_reference import (
    WORK_KINDS,
    call_of,
    events_in,
    launching_op,
    sample_trace,
    trace_in,
    work_of,
)
from made_trace import Call, trace_of_calls
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.device.math import (
    device_model,
    operator_flops,
    tensor_core_time,
    uses_tensor_cores,
)
from stepscope.analysis.device.peaks import peak_flops_per_second
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.work.work import is_communication
from stepscope.cli import main
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

GPU = ["10", "0", "0", "0"]
PRODUCT = '"Input Dims": [[100, 200], [200, 50]], "Input type": ["float", "float"]'


def product(at: int, correlation: int, rest: str) -> list[Call]:
    return [
        Call("aten::mm", at, at + 5, rest=rest),
        Call("cudaLaunchKernel", at + 1, at + 2, "cuda_runtime", correlation=correlation),
        Call("volta_h884gemm", at + 10, at + 14, "kernel", 1, correlation=correlation),
    ]


def test_operations_over_the_time_on_the_device() -> None:
    rows = operator_flops(trace_of_calls([*product(0, 1, PRODUCT), *product(20, 2, "")], pids=GPU))
    assert rows.operator == ("aten::mm",)
    assert rows.calls.tolist() == [1]  # the other has no shapes: neither flops nor time count
    assert rows.flops.tolist() == [2 * 100 * 200 * 50]
    assert rows.device_ns.tolist() == [4_000]
    assert rows.flops_per_second.tolist() == [500e9]


def test_time_by_tensor_cores() -> None:
    calls = [
        *product(0, 1, ""),
        Call("volta_sgemm_64x64", 20, 21, "kernel", 1),
        Call("mystery", 30, 32, "kernel", 1),
        Call("ncclDevKernel_AllReduce", 40, 49, "kernel", 2),  # no compute
    ]
    rows = tensor_core_time(trace_of_calls(calls, pids=GPU))
    assert [c.tolist() for c in (rows.yes_ns, rows.no_ns, rows.unknown_ns)] == [
        [4_000],
        [1_000],
        [2_000],
    ]


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H200", 989.4),
        ("NVIDIA A100-PG509-200", 312.0),
        ("Tesla V100-SXM2-32GB", 125.0),
        ("AMD Instinct MI300X VF", 1307.4),
    ],
)
def test_the_peak_of_a_known_device(name: str, teraflops: float) -> None:
    assert peak_flops_per_second(name) == teraflops * 1e12


def test_the_peak_of_an_unknown_device_is_not_guessed() -> None:
    assert peak_flops_per_second("ARTEMIS") is None
    assert peak_flops_per_second("") is None


def test_models_of_devices() -> None:
    two = [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]
    trace = trace_of_calls([], user={"deviceProperties": two})
    assert [device_model(trace, device) for device in ("0", "1", "9")] == ["A", "B", ""]
    same = [{"id": 0, "name": "A"}, {"id": 1, "name": "A"}]
    assert device_model(trace_of_calls([], user={"deviceProperties": same}), "9") == "A"
    assert device_model(trace_of_calls([], user={"deviceProperties": [7, {}]}), "0") == ""
    assert device_model(trace_of_calls([]), "0") == ""


def test_the_models_of_a_recording_of_our_own() -> None:
    h200 = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9}
    trace = trace_of_calls([], devices=[h200], user={"deviceProperties": [{"id": 0, "name": "A"}]})
    assert [device.properties for device in trace.devices()] == [h200]
    assert device_model(trace, "0") == "NVIDIA H200"
    assert peak_flops_per_second(device_model(trace, "0")) == 989.4e12


def test_the_share_of_the_peak_is_shown_of_a_recording_of_our_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = [{"id": 0, "name": "NVIDIA H200"}]
    trace = trace_of_calls(product(0, 1, PRODUCT), pids=GPU, devices=devices)
    trace.save(tmp_path / "own.stepscope")
    main(["summary", str(tmp_path / "own.stepscope"), "--device"])
    assert "500 GFLOP/s over all device work, 0.1% of the 989 TFLOP/s of NVIDIA H200" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_slow_sums_find_it(path: Path) -> None:
    trace = trace_in(path)
    expected: dict[str, int] = defaultdict(int)
    for event in work_of(events_in(path), trace):
        is_kernel = event.kind == SliceKind.KERNEL and event.name != "dma_request"
        if is_kernel and not is_communication(event.name):
            expected[uses_tensor_cores(event.name).value] += event.end - event.start
    rows = tensor_core_time(trace)
    for word in ("yes", "no", "unknown"):
        assert getattr(rows, f"{word}_ns").sum() == expected[word]


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_device_time_of_counted_operators_as_slow_loops_find_it(path: Path) -> None:
    trace = trace_in(path)
    flops = flops_of(trace).tolist()
    events = events_in(path)
    calls = call_of(events)
    device_ns: dict[int, int] = defaultdict(int)
    for event in events:
        call = calls.get(event.correlation)
        if event.kind not in WORK_KINDS or call is None:
            continue
        row = launching_op(trace, call)
        while row != -1:
            device_ns[row] += event.end - event.start
            row = int(trace.slices.parent[row])
    expected: dict[str, tuple[int, int, int]] = {}
    for row, spent_ns in device_ns.items():
        if flops[row] and spent_ns:
            calls_so_far, done, ns = expected.get(trace.name_of(row), (0, 0, 0))
            expected[trace.name_of(row)] = (calls_so_far + 1, done + flops[row], ns + spent_ns)
    rows = operator_flops(trace)
    numbers = zip(rows.calls.tolist(), rows.flops.tolist(), rows.device_ns.tolist(), strict=True)
    assert dict(zip(rows.operator, numbers, strict=True)) == expected


@pytest.mark.parametrize("name", ["made_language_model", "h200_language_model"])
def test_products_of_a_language_model_come_near_the_peak(name: str) -> None:
    trace = sample_trace(name)
    rows = operator_flops(trace).to_polars().rows_by_key("operator", named=True, unique=True)
    achieved = rows["aten::mm"]["flops"] * 1e9 / rows["aten::mm"]["device_ns"]
    peak = peak_flops_per_second(device_model(trace, "0"))
    assert peak is not None
    assert 0.5 < achieved / peak < 1
