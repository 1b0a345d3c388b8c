"""Waits, CUDA events and the driver's memory, from what CUPTI would record of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import script, stepscope_run
from stepscope import profile
from stepscope.frameworks.cuda.cupti_columns import work_captured
from stepscope.frameworks.cuda.extras import extras_captured, split
from stepscope.frameworks.cuda.options import bits_of, wanted_records
from stepscope.trace.build import build
from stepscope.trace.join import merge_parts
from stepscope.trace.model import SliceKind, TraceInfo

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

NOTHING = 0xFFFFFFFF
KERNEL, RUNTIME, SYNC, EVENT, MEMORY, POOL = 0, 3, 5, 6, 7, 8
NAMES = [
    *(b"kernel", b"cudaEventRecord", b"Stream Wait Event", b"Context Sync", b"CUDA event"),
    *(b"Allocate (Device)", b"Memory pool created"),
]
FIELDS = (
    *("kind", "name", "start_ns", "duration_ns", "correlation", "device", "context", "stream"),
    *("shape", "bytes", "graph", "graph_node"),
)
# A kernel on stream 7 of device 1, an event behind it twice, and who waits: stream 9, the host.
ROWS = [
    (KERNEL, 0, 100, 900, 1, 1, 5, 7, 0, 0, 0, 0),
    (RUNTIME, 1, 110, 5, 2, 0, 0, 4711, 0, 0, 0, 0),
    (RUNTIME, 1, 120, 5, 4, 0, 0, 4711, 0, 0, 0, 0),
    (EVENT, 4, 5_000, 0, 2, 0, 5, 7, 33, 0, 0, 0),
    (EVENT, 4, 5_001, 0, 4, 0, 5, 8, 33, 0, 0, 0),
    (EVENT, 4, 5_002, 0, 99, 0, 5, 8, 34, 0, 0, 0),  # its call is not in the recording
    (SYNC, 2, 115, 1, 3, 0, 5, 9, 33, 0, 0, 0),
    (SYNC, 3, 130, 870, 6, 0, 5, NOTHING, NOTHING, 0, 0, 0),
    (MEMORY, 5, 140, 0, 7, 1, 5, NOTHING, 0, 4096, 0, 0x7000),
    (POOL, 6, 150, 0, 8, 1, 0, NOTHING, 0, 1 << 20, 0, 0x8000),
]


def columns(rows: list[tuple[int, ...]] = ROWS) -> dict[str, Any]:
    types = {"kind": np.uint8, "name": np.uint32, "shape": np.uint32}
    made: dict[str, Any] = {
        field: np.array([row[i] for row in rows], types.get(field, np.int64))
        for i, field in enumerate(FIELDS)
    }
    return made | {"names": NAMES, "shapes": np.ones(8, np.int32), "lost": 0}


def recorded(wanted: str, rows: list[tuple[int, ...]] = ROWS) -> Trace:
    work, others = split(columns(rows))
    more = extras_captured(others, work, wanted_records(wanted))
    parts = [work_captured(work), *([more] if more is not None else [])]
    return build(merge_parts(parts), TraceInfo(producer="test", start_ns=0, end_ns=6_000))


def test_who_waited_for_what() -> None:
    trace = recorded("sync")
    rows = np.flatnonzero(trace.slices.kind == SliceKind.SYNC).tolist()
    stream, context = (trace.slices.args.of_row(row, trace.strings) for row in rows)
    assert stream == {
        "device": 1,
        "context": 5,
        "correlation": 3,
        "stream": 9,
        "cuda_sync_kind": "Stream Wait Event",
        "wait_on_cuda_event_id": 33,
        # The event as it was recorded last before the wait: behind the kernel, on stream 7.
        "wait_on_stream": 7,
        "wait_on_cuda_event_record_corr_id": 2,
    }
    assert context == {
        "device": 1,
        "context": 5,
        "correlation": 6,
        "cuda_sync_kind": "Context Sync",
    }
    tracks = [trace.tracks[track] for track in trace.slices.track[rows]]
    assert [track.thread_name for track in tracks] == [
        "waits of stream 9",
        "waits for events and the device",
    ]
    assert {track.process_label for track in tracks} == {"GPU 1"}
    assert not len(trace.marks)


def test_a_wait_knows_the_events_record_by_its_number() -> None:
    number_of = {2: 70, 4: 71, 3: 71}  # by correlation: the wait is for the second
    numbered = [
        (*row[:9], number_of.get(row[4], 0), 0, 0) if row[0] in {EVENT, SYNC} else row
        for row in ROWS
    ]
    trace = recorded("sync", numbered)
    (wait,) = (row for row in range(len(trace)) if trace.name_of(row) == "Stream Wait Event")
    assert trace.slices.args.of_row(wait, trace.strings)["wait_on_stream"] == 8


def test_events_and_memory_are_marks() -> None:
    trace = recorded("events,memory")
    marks = trace.marks
    args = [
        (trace.strings[name], time, trace.tracks[track].tid, marks.args.of_row(i, trace.strings))
        for i, (name, time, track) in enumerate(
            zip(marks.name.tolist(), marks.time_ns.tolist(), marks.track.tolist(), strict=True)
        )
    ]
    event = {"device": 0, "event": 33}
    place = {"device": 1, "from a pool": 0}
    assert args == [
        ("CUDA event", 110, "7", event | {"correlation": 2, "stream": 7}),
        ("CUDA event", 120, "8", event | {"correlation": 4, "stream": 8}),
        ("Allocate (Device)", 140, "memory",
         place | {"correlation": 7, "bytes": 4096, "address": 0x7000}),
        ("Memory pool created", 150, "memory",
         {"device": 1, "correlation": 8, "bytes": 1 << 20, "address": 0x8000}),
    ]  # fmt: skip
    assert SliceKind.SYNC not in trace.slices.kind
    assert len(recorded("memory", ROWS[:3]).marks) == 0


def test_what_is_asked_for(tmp_path: Path) -> None:
    assert wanted_records("events, sync") == ("sync", "events")
    assert wanted_records(["memory"]) == ("memory",)
    assert bits_of(wanted_records("all")) == 7
    assert wanted_records(None) == ()
    with pytest.raises(ValueError, match="'kernels' is not a kind of device record: use"):
        wanted_records("sync,kernels")
    with pytest.raises(ValueError, match="7 names no records"):
        wanted_records(7)
    with pytest.raises(ValueError, match="'all of it' is not a kind"):
        profile(device_records="all of it")
    done = stepscope_run(
        *("--device-records", "sync,memory", "--sample", "off", "-o", "out.stepscope"),
        str(script(tmp_path, "import stepscope\nwith stepscope.record_function('work'): pass\n")),
        cwd=tmp_path,
        STEPSCOPE_CUPTI="off",
    )
    assert done.returncode == 0
    assert done.stderr.count("no sync, memory records of the device: ") == 1
