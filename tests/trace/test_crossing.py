"""Ranges that go on while their thread does other things hold nothing, and count nothing twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stepscope
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.base.intervals import union
from stepscope.trace.kinds import DEVICE_KINDS, SliceFlags

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def event(name: str, start: float, end: float, cat: str = "cpu_op") -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 2, "ts": start, "dur": end - start,
    }  # fmt: skip


def read(path: Path, *events: dict[str, Any]) -> Trace:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return stepscope.read_trace(path)


def parents(trace: Trace) -> dict[str, str]:
    return {
        trace.name_of(row): trace.name_of(parent) if parent >= 0 else ""
        for row, parent in enumerate(trace.slices.parent.tolist())
    }


def test_a_collective_that_outlasts_its_call_does_not_hold_what_follows(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "t.json",
        event("train", 0, 1000, "user_annotation"),
        event("c10d::alltoall_", 10, 50),
        event("hccl:all_to_all", 20, 900, "user_annotation"),
        event("mtiaLaunch", 30, 40, "mtia_runtime"),
        event("## forward ##", 60, 400, "user_annotation"),
        event("aten::mm", 70, 200),
        event("aten::relu", 890, 950),
    )
    result = parents(trace)
    assert result["## forward ##"] == "train"
    assert result["aten::mm"] == "## forward ##"
    assert result["mtiaLaunch"] == "c10d::alltoall_"
    assert result["hccl:all_to_all"] == ""
    row = next(i for i in range(len(trace)) if trace.name_of(i) == "hccl:all_to_all")
    assert trace.slices.flags[row] & SliceFlags.ASYNC
    assert "overlapping slices" not in trace.info.anomalies


def test_a_collective_at_the_top_does_not_hold_the_forward_pass(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "t.json",
        event("gloo:all_reduce", 0, 1000, "user_annotation"),
        event("## forward ##", 100, 400, "user_annotation"),
        event("aten::mm", 110, 200),
    )
    assert parents(trace) == {
        "gloo:all_reduce": "",
        "## forward ##": "",
        "aten::mm": "## forward ##",
    }


def test_a_collective_holds_its_own_calls(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "t.json",
        event("record_param_comms", 0, 100),
        event("nccl:all_reduce", 5, 90, "user_annotation"),
        event("cudaLaunchKernel", 10, 20, "cuda_runtime"),
        event("aten::copy_", 30, 40),
    )
    assert parents(trace)["cudaLaunchKernel"] == "nccl:all_reduce"
    assert parents(trace)["aten::copy_"] == "nccl:all_reduce"


def test_a_range_that_begins_inside_the_call_that_begins_it_stays(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "t.json",
        event("profiler::_record_function_enter_new", 0, 20),
        event("forward", 10, 500, "user_annotation"),
        event("aten::mm", 30, 60),
        event("profiler::_record_function_exit", 490, 520),
    )
    assert parents(trace)["aten::mm"] == "forward"
    assert not (trace.slices.flags & SliceFlags.ASYNC).any()


def test_no_moment_of_a_thread_is_the_own_time_of_two(tmp_path: Path) -> None:
    trace = read(
        tmp_path / "t.json",
        event("all", 0, 100),
        event("one", 0, 60),
        event("two", 50, 90),
    )
    assert trace.slices.self_ns.tolist() == [10_000, 50_000, 40_000]


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_own_times_add_up_to_the_time_in_slices(path: Path) -> None:
    slices = stepscope.read_trace(path).slices
    on_host = ~np.isin(slices.kind, DEVICE_KINDS) & (slices.flags & SliceFlags.ASYNC == 0)
    for track in np.unique(slices.track[on_host]):
        rows = np.flatnonzero(on_host & (slices.track == track))
        busy = union(slices.start_ns[rows], slices.end_ns[rows])
        assert slices.self_ns[rows].sum() == busy.total_ns
