"""Paddle's result files, read and written without Paddle."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_trace import Bytes, Call, trace_of_calls
from paddle_proto import file_class
from sample_traces import HOSTILE, PADDLE_SAMPLES, json_events, recording
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats import export_trace, read_trace
from stepscope.frameworks.paddle.dialect.result import ProfilerResult, load_profiler_result
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.files.read_pb import read_paddle_pb
from stepscope.frameworks.paddle.files.write_json import export_paddle_json
from stepscope.frameworks.paddle.files.write_pb import export_paddle_pb, paddle_pb
from stepscope.frameworks.paddle.memory_events import MemoryBefore, memory_figures
from stepscope.frameworks.paddle.result_columns import captured_from_pb, paddle_file
from stepscope.trace.model import NO_CORRELATION, Trace

PROTOBUF = PADDLE_SAMPLES / "training.paddle_trace.pb"
CHROME = PADDLE_SAMPLES / "training.paddle_trace.json.gz"

EXPORTS = {"pb": export_paddle_pb, "json": export_paddle_json}
KERNEL = (
    '"blocks per SM": 2, "warps per SM": 1.5, "grid": [8, 2, 1], "block": [32, 4, 1],'
    ' "theoretical achieved occupancy %": 62.5'
)
SHAPES = (
    '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float32", "int64"], "Input names": ["X", "Y"]'
)


def device_trace(**info: Any) -> Trace:
    """Return an operator that launches a kernel, with memory and a kernel nobody launched."""
    calls = [
        Call("ProfileStep#3", 0, 100, "ProfileStep"),
        Call("matmul dygraph", 10, 60, "Operator", rest=SHAPES),
        Call("matmul kernel launch", 20, 50, "DygraphKernelLaunch"),
        Call("cudaLaunchKernel", 25, 30, "CudaRuntime", correlation=7),
        Call("sgemm", 40, 45, "Kernel", track=1, rest=KERNEL, correlation=7),
        Call("lost", 70, 75, "Kernel", track=1, rest=KERNEL, correlation=99),
    ]
    memory = [Bytes(22, 512, "cuda:0"), Bytes(26, 0, "cuda:0"), Bytes(55, -512, "cuda:0")]
    header = {"wall_offset_ns": 1_700_000_000_000_000_000, **info}
    return trace_of_calls(calls, memory, pids=["10", "0"], logical_ids=False, **header)


def events(trace: Trace) -> list[tuple[Any, ...]]:
    """Return what a trace says of its slices, whatever the order of tracks and strings."""
    slices, names = trace.slices, trace.strings
    first = int(slices.start_ns.min()) if len(slices) else 0
    return sorted(
        (
            int(slices.start_ns[row]) - first,
            int(slices.duration_ns[row]),
            names[int(slices.category[row])],
            trace.name_of(row),
            trace.tracks[slices.track[row]].pid,
            trace.tracks[slices.track[row]].tid,
            int(slices.correlation[row]),
        )
        for row in range(len(slices))
    )


@pytest.mark.parametrize("format", EXPORTS)
def test_a_round_trip_keeps_every_event(format: str, tmp_path: Path) -> None:
    trace = device_trace()
    EXPORTS[format](trace, tmp_path / f"t.{format}")
    again = read_trace(tmp_path / f"t.{format}")
    assert events(again) == events(trace)
    assert again.info.wall_offset_ns == trace.info.wall_offset_ns + int(trace.slices.start_ns[0])
    np.testing.assert_array_equal(again.memory.size, trace.memory.size)
    np.testing.assert_array_equal(again.memory.allocated, trace.memory.allocated)
    assert {again.strings[int(i)] for i in again.memory.device} == {"cuda:0"}
    row = list(again.names()).index("matmul dygraph")
    details = again.slices.args.of_row(row, again.strings)
    assert details["Input Dims"] == [[2, 3], [3, 4]]
    assert details["Input type"] == ["float32", "int64"]
    assert details["Input names"] == ["X", "Y"]
    kernel = again.slices.args.of_row(list(again.names()).index("sgemm"), again.strings)
    assert (kernel["grid"], kernel["block"]) == ([8, 2, 1], [32, 4, 1])
    assert kernel["theoretical achieved occupancy %"] == 62.5


def test_protobuf_agrees_about_our_file() -> None:
    file = file_class()()
    file.MergeFromString(paddle_pb(device_trace()))  # raises when a required field is missing
    assert file.IsInitialized()
    (tree,) = file.thread_trees
    root, step, operator, launch = tree.host_nodes
    assert (root.event.name, root.parentid, root.event.end_ns) == ("root node", -1, 2**64 - 1)
    assert [node.parentid for node in (step, operator, launch)] == [0, 1, 2]
    assert operator.event.start_ns == 1_700_000_000_000_010_000
    details = operator.supplements[0].event
    assert list(details.input_shapes.key) == ["X", "Y"]
    assert list(details.input_shapes.lists[1].shapes[0].size) == [3, 4]
    assert [list(values.dtype) for values in details.dtypes.lists] == [["float32"], ["int64"]]
    (call,) = launch.runtime_nodes
    (work,) = call.device_nodes
    assert (work.event.name, work.event.kernel.grid_x, work.event.kernel.occupancy) == (
        "sgemm",
        8,
        0.625,
    )
    assert [node.event.increase_bytes for node in launch.mem_nodes] == [512, 0]
    # The type that Paddle does not know is one that it does, for readers like Paddle's own.
    assert launch.event.type == TracerEventType.OperatorInner
    assert file_class(17).FromString(paddle_pb(device_trace())).thread_trees[0].host_nodes[
        3
    ].event.type == (TracerEventType.DygraphKernelLaunch)


def test_a_file_that_protobuf_wrote_is_read() -> None:
    file = file_class(17)(version="1.0.2", span_index=4)
    host = file.thread_trees.add(thread_id=6).host_nodes.add(id=0, parentid=-1)
    host.event.name, host.event.type = "alone", TracerEventType.Communication
    host.event.start_ns, host.event.end_ns = 1000, 3000
    host.event.process_id, host.event.thread_id = 5, 6
    event = host.mem_nodes.add().event
    event.timestamp_ns, event.type, event.addr, event.increase_bytes = 1500, 1, 2**64 - 8, -64
    event.process_id = event.thread_id = 6
    event.place, event.current_allocated, event.current_reserved = "Place(gpu:1)", 10, 20
    event.peak_allocated, event.peak_reserved = 30, 40
    device = file.device.add(id=1, name="H200")
    for field in device.DESCRIPTOR.fields[2:]:
        setattr(device, field.name, field.number)
    read_back = paddle_file(file.SerializeToString())
    assert (read_back.version, read_back.span_index, read_back.damage) == ("1.0.2", 4, "")
    assert read_back.captured.slices.start_ns.tolist() == [1000]
    assert read_back.captured.memory.address.tolist() == [-8]
    assert read_back.memory_before == {"cuda:1": MemoryBefore(20, 30, 40)}
    assert read_back.device_properties[0]["name"] == "H200"
    assert read_back.device_properties[0]["sharedMemPerBlockOptin"] == 14
    moved = captured_from_pb(file.SerializeToString(), shift_ns=-1000)
    assert (moved.slices.start_ns.tolist(), moved.memory.time_ns.tolist()) == ([0], [500])


def test_the_files_that_paddle_wrote_say_the_same() -> None:
    protobuf, chrome = read_trace(PROTOBUF), read_trace(CHROME)
    written = file_class(17).FromString(PROTOBUF.read_bytes())
    (tree,) = written.thread_trees
    _, *nodes = tree.host_nodes
    in_chrome = [event for event in json_events(CHROME) if event.get("ph") == "X"]
    assert len(protobuf) == len(nodes) == len(in_chrome)
    assert len(protobuf.memory) == sum(len(node.mem_nodes) for node in tree.host_nodes)
    assert events(protobuf) == events(chrome)
    np.testing.assert_array_equal(protobuf.slices.parent, chrome.slices.parent)
    # The JSON has whole µs of memory events: a slice may begin or end between that and the moment.
    slices = protobuf.slices
    edges_ns = np.sort(np.concatenate([slices.start_ns, slices.end_ns])) - slices.start_ns[0]
    moment_ns = protobuf.memory.time_ns - slices.start_ns[0]
    rounded_ns = chrome.memory.time_ns - chrome.slices.start_ns[0]
    is_alike = np.searchsorted(edges_ns, moment_ns) == np.searchsorted(edges_ns, rounded_ns)
    assert (np.abs(moment_ns - rounded_ns) <= 1000).all()
    assert is_alike.mean() > 0.5
    np.testing.assert_array_equal(protobuf.memory.slice[is_alike], chrome.memory.slice[is_alike])
    assert set(protobuf.slices.step.tolist()) == {3, 4, 5}
    assert protobuf.info.user["memoryBefore"] == chrome.info.user["memoryBefore"]
    assert [track.tid for track in chrome.tracks] == [str(tree.thread_id)]
    assert protobuf.info.wall_offset_ns == min(node.event.start_ns for node in nodes)
    assert not protobuf.info.anomalies
    assert not chrome.info.anomalies


@pytest.mark.parametrize("format", EXPORTS)
def test_what_paddle_wrote_survives_our_writing(format: str, tmp_path: Path) -> None:
    trace = read_trace(PROTOBUF)
    EXPORTS[format](trace, tmp_path / f"t.{format}.gz")
    assert gzip.decompress((tmp_path / f"t.{format}.gz").read_bytes())
    again = read_trace(tmp_path / f"t.{format}.gz")
    assert again.to_polars().equals(trace.to_polars())
    for column in ("time_ns", "address", "size", "allocated", "reserved", "slice"):
        np.testing.assert_array_equal(
            getattr(again.memory, column), getattr(trace.memory, column), column
        )


def test_a_file_cut_anywhere_gives_what_is_there_or_a_clear_error(tmp_path: Path) -> None:
    whole = PROTOBUF.read_bytes()
    cut = tmp_path / "cut.pb"
    counts = []
    for size in range(1, len(whole) - 200, 501):
        cut.write_bytes(whole[:size])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TraceReadWarning)
            try:
                counts.append(len(read_paddle_pb(cut)))
            except TraceReadError as error:
                assert "cut.pb" in str(error)
                continue
        assert "ends early" in str(caught[0].message)
    assert counts == sorted(counts)
    assert counts[-1] > 0.9 * len(read_paddle_pb(PROTOBUF))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"hello, this is a text", "is not a trace that Stepscope can read"),
        (b"\x0a\x051.0.2\x10\x00\x1a\x05\xff\xff\xff\xff\xff", "has no readable event"),
        (b"\x0a\x051.0.2\x10\x00\x1a\x7f", "ends early"),
    ],
)
def test_what_is_no_result_is_a_clear_error(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "broken.pb").write_bytes(content)
    with pytest.raises(TraceReadError, match=reason):
        load_profiler_result(tmp_path / "broken.pb")


def test_a_missing_result_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TraceReadError, match="does not exist"):
        load_profiler_result(tmp_path / "missing.pb")


@pytest.mark.parametrize("format", EXPORTS)
@pytest.mark.parametrize("name", [*HOSTILE, "ends like one[1.000 us]", '", "pid": 1', ""])
def test_hostile_names_come_back(format: str, name: str, tmp_path: Path) -> None:
    EXPORTS[format](recording([name, "inner"]), tmp_path / f"t.{format}")
    if format == "json":
        json.loads((tmp_path / "t.json").read_text())
    assert list(read_trace(tmp_path / f"t.{format}").names()) == [name, "inner"]


span = st.tuples(
    st.text(max_size=8),
    st.integers(0, 10**12),
    st.integers(0, 10**10),
    st.sampled_from([kind for kind in TracerEventType if kind not in {3, 4, 5, 6}]),
    st.integers(0, 1),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(spans=st.lists(span, min_size=1, max_size=12))
def test_any_events_come_back(
    spans: list[tuple[str, int, int, TracerEventType, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    calls = [
        Call(name, start, start + length, kind.name, track)
        for name, start, length, kind, track in spans
    ]
    trace = trace_of_calls(calls, logical_ids=False)
    folder = tmp_path_factory.mktemp("any")
    for format, export in EXPORTS.items():
        export(trace, folder / f"t.{format}")
        assert events(read_trace(folder / f"t.{format}")) == events(trace)


def test_nodes_say_what_the_columns_say() -> None:
    result = ProfilerResult(device_trace())
    (root,) = result.get_data().values()
    assert (root.name, root.start_ns, root.end_ns) == ("root node", 0, 2**64 - 1)
    assert (root.process_id, root.thread_id, root.op_id) == (0, 0, 0)
    (step,) = root.children_node
    (operator,) = step.children_node
    assert operator.type == TracerEventType.Operator
    assert operator.input_shapes == {"X": [[2, 3]], "Y": [[3, 4]]}
    assert operator.dtypes == {"X": ["float32"], "Y": ["int64"]}
    assert (operator.callstack, operator.attributes, operator.device_node) == ("", {}, [])
    (launch,) = operator.children_node
    (call,) = launch.runtime_node
    assert (call.name, call.correlation_id) == ("cudaLaunchKernel", 7)
    (kernel,) = call.device_node
    assert (kernel.name, kernel.grid_x, kernel.block_y, kernel.occupancy) == ("sgemm", 8, 4, 0.625)
    assert (kernel.device_id, kernel.correlation_id, kernel.num_bytes) == (0, 7, 0)
    assert [node.name for node in root.device_node] == ["lost"]
    assert [node.type.name for node in launch.mem_node] == ["Allocate", "ReservedAllocate"]
    assert [node.place for node in operator.mem_node] == ["Place(gpu:0)"]
    assert "HostPythonNode(name='matmul dygraph', type='Operator'" in repr(operator)
    assert result.get_version() == "1.0.2"
    assert result.get_span_index() == 0


def test_saving_needs_a_known_format(tmp_path: Path) -> None:
    result = ProfilerResult(device_trace())
    with pytest.raises(ValueError, match="'xml'; use 'json' or 'pb'"):
        result.save(tmp_path / "t", "xml")
    result.save(tmp_path / "t", "pb")
    assert events(load_profiler_result(tmp_path / "t").trace) == events(result.trace)


def test_a_trace_of_torch_gets_paddles_types(tmp_path: Path) -> None:
    export_trace(recording(), tmp_path / "t.pb")
    again = read_trace(tmp_path / "t.pb")
    assert [again.strings[int(i)] for i in again.slices.category] == ["Operator", "OperatorInner"]
    assert set(again.slices.correlation.tolist()) == {NO_CORRELATION}


def test_peaks_are_kept_as_told_where_they_are_not_the_most_so_far(tmp_path: Path) -> None:
    """Another thread took memory: Paddle looks at the sum when a thread has more than ever."""
    peaks = {"peaks_allocated": [[0, 400], [2, 450]], "peaks_reserved": [[1, 7]]}
    trace = device_trace(user={"memoryBefore": {"cuda:0": {"reserved": 0, **peaks}}})
    export_paddle_pb(trace, tmp_path / "first.pb")
    export_paddle_json(trace, tmp_path / "first.json")
    again = read_trace(tmp_path / "first.pb")
    export_paddle_pb(again, tmp_path / "again.pb")
    for trace in (again, read_trace(tmp_path / "again.pb"), read_trace(tmp_path / "first.json")):
        figures = memory_figures(trace.memory, trace.strings, trace.info.user["memoryBefore"])
        assert figures["peak_allocated"].tolist() == [400, 400, 450]
        assert figures["peak_reserved"].tolist() == [0, 7, 7]


@pytest.mark.parametrize("peaks", ["ab", [[]], [[1]], [[0, 2**70]], [[0, 1.5]], 3, None, {"0": 1}])
def test_peaks_that_cannot_be_are_left_out(peaks: object) -> None:
    memory = device_trace().memory
    before = {"cuda:0": {"peaks_allocated": peaks, "peak_reserved": 2**70}}
    figures = memory_figures(memory, device_trace().strings, before)
    assert figures["peak_allocated"].tolist() == np.maximum.accumulate(memory.allocated).tolist()


def test_memory_of_the_allocator_changes_what_is_reserved_only(tmp_path: Path) -> None:
    trace = device_trace()
    memory = trace.memory
    before = {"cuda:0": {"reserved": 100, "peak_allocated": 5000, "peak_reserved": 10}}
    trace = device_trace(user={"memoryBefore": before})
    trace.memory.reserved[:] = [100, 1100, 1100]
    export_paddle_pb(trace, tmp_path / "t.pb")
    nodes = [
        node
        for root in load_profiler_result(tmp_path / "t.pb").get_data().values()
        for step in root.children_node
        for operator in step.children_node
        for node in [*operator.children_node[0].mem_node, *operator.mem_node]
    ]
    assert [(node.type.name, node.increase_bytes) for node in nodes] == [
        ("Allocate", 512),
        ("ReservedAllocate", 1000),
        ("Free", -512),
    ]
    assert [node.peak_allocated for node in nodes] == [5000, 5000, 5000]
    assert [node.peak_reserved for node in nodes] == [100, 1100, 1100]
    assert len(memory) == 3
