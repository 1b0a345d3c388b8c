"""SQLite files of Nsight Systems and ROCm, beside sums by plain SQL over the same file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_databases import GUID, PID, TID, write_nsight, write_rocpd, write_rpd
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.errors import TraceReadError
from stepscope.formats import read_trace
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepscope.trace.model import Trace


def asked(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(statement).fetchall()


def union_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Add up the time in which anything ran, in plain Python."""
    total, last = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, last), 0)
        last = max(last, end)
    return total


def busy_ns(trace: Trace) -> dict[str, int]:
    work = device_work(trace)
    return {device: work.busy(work.device == i).total_ns for i, device in enumerate(work.devices)}


def names_of(trace: Trace, kind: SliceKind) -> set[str]:
    rows = np.flatnonzero(trace.slices.kind == kind)
    return {trace.name_of(int(row)) for row in rows}


def test_nsight_numbers_equal_those_of_plain_sql(tmp_path: Path) -> None:
    path = write_nsight(tmp_path / "report.sqlite", steps=50)
    trace = read_trace(path)
    spans = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_{} WHERE deviceId = {}".format
    for device in (0, 1):
        values = [
            span
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
            for span in asked(path, spans(kind, device))
        ]
        assert busy_ns(trace)[str(device)] == union_ns(values)
    work = device_work(trace)
    kernels = work.kind == WorkKind.COMPUTE
    ((count, total),) = asked(
        path, "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    assert (kernels.sum(), work.duration_ns[kernels].sum()) == (count, total)
    size = trace.slices.args.dense("bytes", len(trace), 0)
    copies = trace.slices.kind == SliceKind.MEMCPY
    ((bytes_,),) = asked(path, "SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY")
    assert size[copies].sum() == bytes_


def test_nsight_names_ranges_devices_and_launches(tmp_path: Path) -> None:
    trace = read_trace(write_nsight(tmp_path / "report.sqlite"))
    assert names_of(trace, SliceKind.KERNEL) == {"void gemm<float>(float*)", "softmax"}
    assert names_of(trace, SliceKind.MEMCPY) == {"Memcpy HtoD (Pinned -> Device)"}
    assert "cudaLaunchKernel" in names_of(trace, SliceKind.RUNTIME)
    assert {"step 0", "registered", "never ends"} <= names_of(trace, SliceKind.RANGE)
    assert [(d.id, d.name, d.multiprocessors) for d in trace.devices()] == [(0, "NVIDIA H200", 132)]
    assert (trace.info.host, trace.info.wall_offset_ns) == ("node7", 1_700_000_000_000_000_000)
    work = device_work(trace)
    launched = dict(
        zip(
            (trace.name_of(int(row)) for row in work.rows),
            work.operator_names(work.rows),
            strict=True,
        )
    )
    assert launched["void gemm<float>(float*)"] == "registered"
    # What a graph runs is owed to the call that put it there, through the copy of the node.
    in_graph = trace.slices.args.integers["graph node id"].rows
    assert set(work.operator_names(in_graph.astype(np.int64))) == {"cudaGraphKernelNode"}
    thread = next(track for track in trace.tracks if track.pid == str(PID))
    assert (thread.tid, thread.thread_name, thread.process_name) == (
        str(TID), "MainThread", "python3",
    )  # fmt: skip


@pytest.mark.parametrize(
    "missing",
    [
        ("StringIds",),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"),
        ("NVTX_EVENTS", "ThreadNames", "PROCESSES", "TARGET_INFO_GPU", "CUDA_GRAPH_EVENTS"),
    ],
)
def test_missing_tables_are_missing(tmp_path: Path, missing: tuple[str, ...]) -> None:
    trace = read_trace(write_nsight(tmp_path / "report.sqlite", without=missing))
    assert len(trace) > 5


@pytest.mark.parametrize("by_track", [False, True])
def test_rocpd_numbers_equal_those_of_plain_sql(tmp_path: Path, by_track: bool) -> None:
    plain = write_rocpd(tmp_path / "plain.db", steps=40)
    path = write_rocpd(tmp_path / "trace.db", steps=40, by_track=True) if by_track else plain
    trace = read_trace(path)
    dispatches, copies = (f'"rocpd_{n}_{GUID}"' for n in ("kernel_dispatch", "memory_copy"))
    for device, agent in (("0", 2), ("1", 3)):
        result = asked(plain, f"SELECT start, end FROM {dispatches} WHERE agent_id = {agent}")
        result += asked(plain, f"SELECT start, end FROM {copies} WHERE dst_agent_id = {agent}")
        assert busy_ns(trace)[device] == union_ns(result)
    ((count, total),) = asked(plain, f"SELECT count(*), sum(end - start) FROM {dispatches}")
    kernels = trace.slices.kind == SliceKind.KERNEL
    assert (kernels.sum(), trace.slices.duration_ns[kernels].sum()) == (count, total)
    assert names_of(trace, SliceKind.KERNEL) == {"gemm(float*)", "copy.kd"}
    assert names_of(trace, SliceKind.MEMCPY) == {"Memcpy HtoD"}
    assert names_of(trace, SliceKind.RANGE) == {f"step {step}" for step in range(40)}
    work = device_work(trace)
    gemm = work.rows[[trace.name_of(int(row)) == "gemm(float*)" for row in work.rows]]
    assert set(work.operator_names(gemm)) == names_of(trace, SliceKind.RANGE)
    assert trace.memory.allocated.max() == 2000  # one more is taken before the last is given back
    shape = trace.slices.args.of_row(int(gemm[0]), trace.strings)
    assert (shape["grid"], shape["block"]) == ([10, 2, 1], [64, 1, 1])


@pytest.mark.parametrize("by_track", [False, True])
def test_what_rocprofv3_leaves_out_of_releases_and_calls_samples(
    tmp_path: Path, by_track: bool
) -> None:
    """A release has no agent and no size, an address may be taken again, a mark takes no time."""
    path = write_rocpd(tmp_path / "trace.db", steps=0)
    times = ("id", "timestamp_id") if by_track else ("id", "timestamp")
    written(
        path,
        f"INSERT INTO rocpd_memory_allocate_{GUID} (id, pid, tid, start, end, agent_id, type,"
        " level, address, size) VALUES (1, 1, 1, 10, 20, 3, 'ALLOC', 'REAL', 64, 1000),"
        " (2, 1, 1, 30, 40, NULL, 'FREE', 'REAL', 64, 0),"
        " (3, 1, 1, 50, 60, 3, 'ALLOC', 'REAL', 64, 500),"
        " (4, 1, 1, 70, 80, 3, 'REALLOC', 'REAL', 64, 700),"
        " (5, 1, 1, 90, 95, NULL, 'FREE', 'REAL', 0, 0)",
        f"INSERT INTO rocpd_event_{GUID} (id, category_id, stack_id, extdata) VALUES"
        """ (9, 5, 1, '{"message": "a mark"}')""",
        f"CREATE TABLE rocpd_track_{GUID} (id, pid, tid)",
        f"INSERT INTO rocpd_track_{GUID} VALUES (7, 1, 1)",
        f"CREATE TABLE rocpd_sample_{GUID} ({', '.join(times)}, track_id, event_id)",
        f"INSERT INTO rocpd_sample_{GUID} VALUES (1, 77, 7, 9)",
        *(
            (f"CREATE TABLE rocpd_timestamp_{GUID} (id, value)",
             f"INSERT INTO rocpd_timestamp_{GUID} VALUES (77, 55)")
            if by_track else ()
        ),
    )  # fmt: skip
    trace = read_trace(path)
    assert trace.memory.size.tolist() == [1000, -1000, 500, -500, 700]
    assert {trace.strings[int(device)] for device in trace.memory.device} == {"hip:1"}
    assert trace.memory.allocated.max() == 1000
    assert [trace.strings[int(name)] for name in trace.marks.name] == ["a mark"]
    first_ns = int(trace.memory.time_ns[0])
    assert int(trace.marks.time_ns[0]) - first_ns == (55 if by_track else 77) - 20
    assert trace.tracks[int(trace.marks.track[0])].tid == str(TID)


def test_rocm_profile_data(tmp_path: Path) -> None:
    trace = read_trace(write_rpd(tmp_path / "trace.rpd"))
    assert names_of(trace, SliceKind.KERNEL) == {"gemm"}
    assert names_of(trace, SliceKind.RANGE) == {"my range"}
    assert busy_ns(trace) == {"0": 420 - 200}


def written(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()
    return path


def test_operators_of_emit_nvtx_have_names_shapes_and_sequence_numbers(tmp_path: Path) -> None:
    texts = (
        "aten::add, seq = 12, op_id = 5, sizes = [[2, 3], []], input_op_ids = [(4,0)]",
        "aten::add, seq = 13, op_id = 6, sizes = [[2, 3], []]",
        "aten::empty, op_id = 7",
        "step 1, part 2",
    )
    rows = ", ".join(f"({10 * i}, {10 * i + 5}, 59, '{text}')" for i, text in enumerate(texts))
    insert = f"INSERT INTO NVTX_EVENTS (start, end, eventType, text) VALUES {rows}"
    trace = read_trace(written(write_nsight(tmp_path / "torch.sqlite", steps=1), insert))
    assert names_of(trace, SliceKind.OPERATOR) == {"aten::add", "aten::empty"}
    assert "step 1, part 2" in names_of(trace, SliceKind.RANGE)
    first = np.flatnonzero(trace.slices.kind == SliceKind.OPERATOR)[0]
    arguments = trace.slices.args.of_row(int(first), trace.strings)
    assert arguments == {"Sequence number": 12, "Input Dims": [[2, 3], []]}


def test_hostile_schemas_do_no_harm(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i AS start FROM n"
    path = written(
        write_nsight(tmp_path / "hostile.sqlite"),
        "DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET",
        f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS {endless}",
        "CREATE TABLE OSRT_API (start, end AS (start + length(hex(zeroblob(9)))), globalTid)",
        "INSERT INTO OSRT_API VALUES (5, 7)",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, bytes) VALUES"
        " ('text', x'00', 1.5), (1e300, NULL, 3), (-9223372036854775808, 9223372036854775807, 1)",
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text)"
        " VALUES (1, 2, 59, CAST(x'ff' AS TEXT))",
    )
    before = path.read_bytes()
    trace = read_trace(path)
    assert (trace.slices.kind == SliceKind.MEMSET).sum() == 0  # a view is not read
    assert trace.info.anomalies["events with a time out of range"] == 3
    assert "\ufffd" in names_of(trace, SliceKind.RANGE)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["hostile.sqlite"]


def test_other_databases_are_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.sqlite", "CREATE TABLE customers (name)")
    with pytest.raises(TraceReadError, match=r"from a known profiler.*'customers'.*nsys export"):
        read_trace(path)
    (tmp_path / "cut.sqlite").write_bytes(write_nsight(tmp_path / "a.sqlite").read_bytes()[:3000])
    with pytest.raises(TraceReadError, match="damaged SQLite file"):
        read_trace(tmp_path / "cut.sqlite")
    empty = written(tmp_path / "empty.sqlite", "CREATE TABLE StringIds (id, value)")
    with pytest.raises(TraceReadError, match="without an event"):
        read_trace(empty)
