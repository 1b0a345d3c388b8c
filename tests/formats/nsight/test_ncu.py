"""Nsight Compute's tables: durations, places and metrics of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_ncu import NCU_LONG, NCU_WIDE
from stepscope.analysis.work.work import device_work
from stepscope.errors import TraceReadError
from stepscope.formats import read_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_a_metric_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(NCU_LONG)
    trace = read_trace(tmp_path / "a.csv")
    assert [trace.name_of(row) for row in range(len(trace))] == ["gemm(float *, int)", "softmax"]
    assert trace.slices.duration_ns.tolist() == [12_500, 1408]
    assert trace.slices.start_ns.tolist() == [0, 12_500]
    arguments = trace.slices.args.of_row(0, trace.strings)
    assert (arguments["grid"], arguments["block"]) == ([8, 4, 1], [128, 1, 1])
    assert arguments["DRAM Throughput [%]"] == 41.25


def test_a_kernel_a_line(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(NCU_WIDE)
    trace = read_trace(tmp_path / "raw.csv")
    work = device_work(trace)
    busy = [work.busy(work.device == i).total_ns for i in range(len(work.devices))]
    assert (work.devices, busy) == (("0", "1"), [12_500, 13_001])
    assert trace.slices.args.of_row(1, trace.strings)["sm__throughput.avg [%]"] == 70


def test_a_table_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(NCU_LONG.partition('"0"')[0])
    with pytest.raises(TraceReadError, match=r"without a kernel; print one with ncu --csv"):
        read_trace(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("name,age\nA,5\n")
    with pytest.raises(TraceReadError, match="is not a trace"):
        read_trace(tmp_path / "b.csv")
