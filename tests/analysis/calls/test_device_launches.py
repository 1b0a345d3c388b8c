"""Device time belongs to the operator, range and module around the launch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chrome_json import read_text
from device_reference import (
    WORK_KINDS,
    call_of,
    events_in,
    launching_op,
    sample_trace,
    trace_in,
)
from made_trace import Call, trace_of_calls
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.calls.launches import launches
from stepscope.analysis.host.averages import averages
from stepscope.analysis.host.modules import module_table
from stepscope.analysis.work.work import device_work

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

GPU = ["10", "0", "0", "0"]

# A replayed CUDA graph as Kineto writes it: all kernels have the correlation of the one launch.
GRAPH = """{"traceEvents": [
 {"ph": "X", "cat": "user_annotation", "name": "replay", "pid": 9, "tid": 9, "ts": 100, "dur": 50,
  "args": {"External id": 1}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "pid": 9, "tid": 9, "ts": 102, "dur": 8,
  "args": {"External id": 2}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 9, "ts": 103,
  "dur": 2, "args": {"External id": 2, "cbid": 41, "correlation": 70}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 9, "tid": 9, "ts": 120,
  "dur": 10, "args": {"External id": 1, "cbid": 311, "correlation": 71}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7,
  "ts": 110, "dur": 3, "args": {"device": 0, "stream": 7, "correlation": 70, "bytes": 64}},
 {"ph": "X", "cat": "kernel", "name": "one", "pid": 0, "tid": 7, "ts": 140, "dur": 20,
  "args": {"device": 0, "stream": 7, "correlation": 71, "graph node id": 5, "grid": [1, 1, 1]}},
 {"ph": "X", "cat": "kernel", "name": "two", "pid": 0, "tid": 7, "ts": 160, "dur": 30,
  "args": {"device": 0, "stream": 7, "correlation": 71, "graph node id": 6, "grid": [1, 1, 1]}},
 {"ph": "X", "cat": "kernel", "name": "three", "pid": 0, "tid": 13, "ts": 165, "dur": 10,
  "args": {"device": 0, "stream": 13, "correlation": 71, "graph node id": 7, "grid": [1, 1, 1]}}
]}"""


def device_times(trace: Trace) -> dict[str, tuple[int, int]]:
    """Return total and own device time of host events by name, in µs."""
    rows = averages(call_tree(trace))
    return {
        rows.key[i]: (int(rows.device_ns[i]) // 1000, int(rows.self_device_ns[i]) // 1000)
        for i in np.flatnonzero(~rows.is_device)
    }


def test_the_kernels_of_a_replay_belong_to_the_range_that_launched_the_graph(
    tmp_path: Path,
) -> None:
    trace = read_text(tmp_path, GRAPH)
    times = device_times(trace)
    assert times["replay"] == (63, 60)
    assert times["aten::copy_"] == (3, 3)
    work = device_work(trace)
    owners = dict(zip(work.names(work.rows), work.operator_names(work.rows), strict=True))
    assert owners == {
        "Memcpy HtoD (Pinned -> Device)": "aten::copy_",
        "one": "replay",
        "two": "replay",
        "three": "replay",
    }


def test_a_replay_belongs_to_the_module_that_it_runs_in() -> None:
    calls = [
        Call("Net", 0, 50, "module", rest='"Class": "Net"'),
        Call("encoder", 5, 40, "module", rest='"Class": "Graphed"'),
        Call("cudaGraphLaunch", 10, 14, "cuda_runtime", correlation=7),
        Call("a", 20, 30, "kernel", 1, correlation=7),
        Call("b", 30, 35, "kernel", 1, correlation=7),
        Call("cudaGraphLaunch", 42, 44, "cuda_runtime", correlation=8),
        Call("c", 50, 52, "kernel", 1, correlation=8),
    ]
    rows = module_table(trace_of_calls(calls, pids=GPU))
    own = dict(zip(rows.name, (rows.self_device_ns // 1000).tolist(), strict=True))
    assert (own["encoder"], own["Net"]) == (15, 2)
    assert rows.device_ns[rows.name.index("Net")] == 17_000


def test_an_external_id_that_only_repeats_the_correlation_names_no_operator() -> None:
    calls = [
        Call("aten::mm", 0, 5, external_id=42),
        Call("lost", 10, 20, "kernel", 1, correlation=42, external_id=42),
        Call("told", 20, 30, "kernel", 1, correlation=77, external_id=42),
    ]
    assert device_times(trace_of_calls(calls, pids=GPU)) == {"aten::mm": (10, 10)}


def test_early_kinetos_wrote_the_external_id_otherwise(tmp_path: Path) -> None:
    text = """{"traceEvents": [
     {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 0, "dur": 5,
      "args": {"External id": 3}},
     {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 9, "dur": 4,
      "args": {"external id": 3, "correlation": 55}}]}"""
    trace = read_text(tmp_path, text)
    assert device_times(trace) == {"aten::mm": (4, 4)}
    assert device_work(trace).streams == ((0, "7"),)


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_every_kernel_is_tied_as_a_slow_search_ties_it(path: Path) -> None:
    trace = trace_in(path)
    tree = call_tree(trace)
    launch_rows = launches(tree)
    if launch_rows is None:
        return
    events = events_in(path)
    calls = call_of(events)
    tied = {
        tree.row(work): tree.row(host)
        for work, host in zip(launch_rows.work.tolist(), launch_rows.host.tolist(), strict=True)
    }
    for event in events:
        call = calls.get(event.correlation)
        if event.row not in tied or call is None:
            continue
        op = launching_op(trace, call)
        # A same-named only child is folded into its parent.
        assert op == tied[event.row] or trace.name_of(op) == trace.name_of(tied[event.row])


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_device_time_adds_up_over_operators_and_modules(path: Path) -> None:
    trace = trace_in(path)
    tree = call_tree(trace)
    launch_rows = launches(tree)
    if launch_rows is None or tree.is_device is None:
        return
    launched_ns = int(tree.of(trace.slices.duration_ns)[launch_rows.work].sum())
    assert launch_rows.self_device_ns[~tree.is_device].sum() == launched_ns
    above: dict[int, int] = defaultdict(int)
    for host, work in zip(launch_rows.host.tolist(), launch_rows.work.tolist(), strict=True):
        event = host
        while event != -1:
            above[event] += int(trace.slices.duration_ns[tree.row(work)])
            event = int(tree.parent[event])
    host_events = np.flatnonzero(~tree.is_device).tolist()
    assert [int(launch_rows.device_ns[i]) for i in host_events] == [above[i] for i in host_events]
    calls = call_of(events_in(path))
    by_name = {tree.row(work) for work in launch_rows.work.tolist()}
    by_name |= {
        event.row
        for event in events_in(path)
        if event.kind in WORK_KINDS and event.correlation in calls
    }
    expected = sum(int(trace.slices.duration_ns[row]) for row in by_name)
    assert module_table(trace).self_device_ns.sum() == expected


@pytest.mark.parametrize("name", ["made_rocm", "h200_language_model"])
def test_all_that_models_launched_is_in_their_modules(name: str) -> None:
    rows = module_table(sample_trace(name))
    inside = np.array([bool(model) for model in rows.model])
    assert rows.self_device_ns[inside].sum() == rows.self_device_ns.sum() > 0
