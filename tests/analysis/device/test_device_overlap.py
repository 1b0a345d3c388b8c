"""Copies beside kernels, and communication beside compute."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chrome_json import read_text
from device_reference import (
    Event,
    busy,
    by_device,
    events_in,
    length,
    sample_trace,
    shared,
    trace_in,
    work_of,
)
from made_trace import Call, trace_of_calls
from sample_traces import H200, ONE_RANK, json_events, sample_name, sample_path
from stepscope.analysis.device.communication import collective_table, communication_overlap
from stepscope.analysis.device.copies import copy_table
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis.device.copies import CopyTable

GPU = ["10", "0", "0", "0"]
H2D = "Memcpy HtoD (Pinned -> Device)"


def is_copy(event: Event) -> bool:
    return event.kind == SliceKind.MEMCPY or event.name == "dma_request"


def communicates(event: Event) -> bool:
    return event.kind == SliceKind.KERNEL and (
        event.name.startswith("nccl") or "multimem_all_reduce" in event.name
    )


def test_a_copy_is_hidden_while_a_kernel_runs() -> None:
    calls = [
        Call("k", 0, 10, "kernel", 1),
        Call("k", 20, 30, "kernel", 1),
        Call(H2D, 5, 25, "gpu_memcpy", 2),
        Call(H2D, 8, 12, "gpu_memcpy", 3),
    ]
    rows = copy_table(trace_of_calls(calls, pids=GPU))
    assert rows.name == (H2D,)
    assert rows.total_ns.tolist() == [24_000]
    assert rows.busy_ns.tolist() == [20_000]
    assert rows.hidden_ns.tolist() == [10_000]
    assert rows.exposed_ns.tolist() == [10_000]
    assert rows.untold.tolist() == [2]
    assert rows.bytes_per_second.tolist() == [0.0]


def test_bytes_and_bandwidth(tmp_path: Path) -> None:
    copies = [
        {"ph": "X", "cat": "gpu_memcpy", "name": H2D, "pid": 0, "tid": 7, "ts": at, "dur": 2.0,
         "args": {"device": 0, "stream": 7, "bytes": 4000}}
        for at in (10, 20)
    ]  # fmt: skip
    rows = copy_table(read_text(tmp_path, json.dumps({"traceEvents": copies})))
    assert rows.bytes.tolist() == [8000]
    assert rows.bytes_per_second.tolist() == [2e9]


def test_communication_is_exposed_while_nothing_computes() -> None:
    calls = [
        Call("volta_sgemm", 0, 10, "kernel", 1),
        Call("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 25, "kernel", 2),
        Call("ncclDevKernel_AllGather_RING_LL", 30, 40, "kernel", 2),
        Call(H2D, 30, 40, "gpu_memcpy", 3),  # a copy computes nothing
    ]
    trace = trace_of_calls(calls, pids=GPU)
    rows = communication_overlap(trace)
    assert rows.communication_ns.tolist() == [30_000]
    assert rows.compute_ns.tolist() == [10_000]
    assert rows.overlap_ns.tolist() == [5_000]
    assert rows.exposed_ns.tolist() == [25_000]
    collectives = collective_table(trace)
    assert collectives.collective == ("AllReduce", "AllGather")
    assert collectives.exposed_ns.tolist() == [15_000, 10_000]
    assert collectives.group_size.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("dtype", "size"), [("BFloat16", 2000), ("ComplexDouble", 16_000), ("Float8_e4m3fnuz", 1000)]
)
def test_what_the_trace_tells_of_a_collective(tmp_path: Path, dtype: str, size: int) -> None:
    about = {"Collective name": "allreduce", "dtype": dtype, "Group size": 8,
             "In msg nelems": 1000, "Out msg nelems": 1000}  # fmt: skip
    kernel = {"ph": "X", "cat": "kernel", "name": "a kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 2,
              "args": about}  # fmt: skip
    rows = collective_table(read_text(tmp_path, json.dumps({"traceEvents": [kernel]})))
    (row,) = rows.to_polars().rows(named=True)
    assert row["collective"] == "allreduce"
    assert (row["dtype"], row["group_size"], row["bytes"]) == (dtype, 8, size)
    assert rows.bytes_per_second.tolist() == [size * 500_000]


def test_without_device_work_there_are_no_rows() -> None:
    trace = trace_of_calls([Call("aten::mm", 0, 5)])
    tables = copy_table(trace), communication_overlap(trace), collective_table(trace)
    assert [table.to_polars().height for table in tables] == [0, 0, 0]


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_slow_loops_find_it(path: Path) -> None:
    trace = trace_in(path)
    work = work_of(events_in(path), trace)
    copies, overlap, collectives = (
        copy_table(trace),
        communication_overlap(trace),
        collective_table(trace),
    )
    for device, own in by_device(work).items():
        kernels = [e for e in own if e.kind == SliceKind.KERNEL and not is_copy(e)]
        _check_copies(copies, device, own, kernels)
        talk = busy([e for e in kernels if communicates(e)])
        compute = busy([e for e in kernels if not communicates(e)])
        row = overlap.device.index(device)
        assert overlap.communication_ns[row] == length(talk)
        assert overlap.compute_ns[row] == length(compute)
        assert overlap.overlap_ns[row] == shared(talk, compute)
        rows = [i for i, name in enumerate(collectives.device) if name == device]
        summed = sum(e.end - e.start for e in kernels if communicates(e))
        assert collectives.total_ns[rows].sum() == summed
        assert collectives.count[rows].sum() == sum(map(communicates, kernels))
        for i in rows:
            collective = collectives.collective[i]
            if collective in {"SendRecv", "AllReduce"}:  # known by the kernel's name only
                ran = busy([e for e in kernels if f"ncclDevKernel_{collective}" in e.name])
                assert collectives.exposed_ns[i] == length(ran) - shared(ran, compute)


def _check_copies(table: CopyTable, device: str, work: list[Event], kernels: list[Event]) -> None:
    copies: dict[str, list[Event]] = defaultdict(list)
    for event in work:
        if is_copy(event):
            copies[event.name].append(event)
    by_name = {
        name: (table.count[i], table.busy_ns[i], table.hidden_ns[i])
        for i, name in enumerate(table.name)
        if table.device[i] == device
    }
    assert by_name == {
        name: (len(ran), length(busy(ran)), shared(busy(ran), busy(kernels)))
        for name, ran in copies.items()
    }


@pytest.mark.parametrize("name", ["made_nccl", "made_rocm", *H200])
def test_bytes_of_copies_are_those_of_the_file(name: str) -> None:
    path = sample_path(name)
    totals: dict[str, int] = defaultdict(int)
    for event in json_events(path):
        if event.get("cat") == "gpu_memcpy":
            totals[event["name"]] += event["args"]["bytes"]
    rows = copy_table(trace_in(path))
    assert dict(zip(rows.name, rows.bytes.tolist(), strict=True)) == totals


def test_collectives_with_their_sizes() -> None:
    path = sample_path("made_nccl")
    expected: dict[tuple[str, str], int] = defaultdict(int)
    for event in json_events(path):
        about = event.get("args", {})
        if "Collective name" in about:
            width = {"Float": 4, "Long": 8}[about["dtype"]]
            key = (about["Collective name"], about["dtype"])
            expected[key] += width * max(about["In msg nelems"], about["Out msg nelems"])
    rows = collective_table(trace_in(path))
    pairs = zip(rows.collective, rows.dtype, rows.bytes.tolist(), strict=True)
    sizes = {(name, dtype): size for name, dtype, size in pairs}
    assert sizes.pop(("SendRecv", "")) == 0  # its kernel does not say
    assert sizes == expected
    sized = np.array([bool(dtype) for dtype in rows.dtype])
    assert set(rows.group_size[sized].tolist()) == {2}


def test_ranks_in_one_file_communicate_on_every_device() -> None:
    rows = collective_table(sample_trace("made_two_gpus"))
    assert set(rows.device) == {"0", "1"}
    assert set(rows.collective) == {"AllReduce"}
    assert (rows.exposed_ns <= rows.total_ns).all()
