"""Sampled stacks in other tools' files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope import export_trace, read_trace
from stepscope.trace.build import build
from stepscope.trace.kinds import ThreadState, WaitReason
from stepscope.trace.model import PRODUCER, Stacks, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Samples, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ("", "a.py(1): main", "a.py(2): work; b", "<native call time.sleep>", "outer", "cpu_op")
MAIN, OTHER = 0, 1


def made(*rows: tuple[int, int, int, int, int, int]) -> Trace:
    """Return a trace with samples (time, duration, track, stack, state, wait) and one slice."""
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    names = ("time_ns", "duration_ns", "track", "stack", "state", "wait")
    expected = Samples.columns()
    samples = Samples.of(
        **{
            name: values.astype(expected[name].dtype)
            for name, values in zip(names, columns, strict=True)
        }
    )
    slices = Slices.of(
        name=np.array([4], np.uint32),
        category=np.array([5], np.uint32),
        start_ns=np.array([1_000], np.int64),
        duration_ns=np.array([9_000], np.int64),
        track=np.array([MAIN], np.uint32),
    )
    stacks = Stacks(np.array([0, 0, 1, 2], np.uint32), np.array([0, 1, 2, 3], np.uint32))
    tracks = (
        Track("7", "7", "python", "MainThread", process_sort=7, thread_sort=7),
        Track("7", "8", "python", "", process_sort=7, thread_sort=8),
    )
    captured = Captured(slices, tracks, Strings.of(TEXTS), stacks=stacks, samples=samples)
    return build(captured, TraceInfo(PRODUCER, 1_000, 20_000, pid=7, host="here"))


@pytest.fixture
def trace() -> Trace:
    return made(
        (1_001, 999, MAIN, 1, ThreadState.PYTHON, 0),
        (2_000, 5_000, MAIN, 3, ThreadState.BLOCKED, WaitReason.SLEEP),
        (7_000, 1_000, MAIN, 2, ThreadState.GIL, 0),
        (8_000, 2_000, MAIN, 2, ThreadState.PYTHON, 0),
        (3_000, 4_000, OTHER, 0, ThreadState.NATIVE, 0),
    )


def stacks_of(trace: Trace) -> list[list[str]]:
    return [
        [trace.strings[i] for i in trace.stacks.frames(int(row))] for row in trace.samples.stack
    ]


def test_chrome_files_hold_them_and_give_them_back(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    export_trace(trace, path)
    content = json.loads(path.read_text())
    assert content["samples"][1] == {
        "pid": 7,
        "tid": 7,
        "ts": 2.0,
        "name": "blocked: sleep",
        "sf": "3",
        "weight": 5.0,
    }
    frame = content["stackFrames"]["3"]
    assert (frame["name"], frame["parent"]) == ("<native call time.sleep>", "2")
    again = read_trace(path)
    for name in ("time_ns", "duration_ns", "state", "wait", "slice"):
        assert getattr(again.samples, name).tolist() == getattr(trace.samples, name).tolist()
    assert stacks_of(again) == stacks_of(trace)
    assert [again.tracks[i].tid for i in again.samples.track] == ["7", "7", "8", "7", "7"]
    assert not {"samples", "stackFrames"} & set(again.info.user)
    third = tmp_path / "again.json"
    export_trace(again, third)
    assert json.loads(third.read_text())["samples"] == content["samples"]


def test_a_chrome_file_without_samples_has_no_such_sections(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    export_trace(made(), path)
    assert not {"samples", "stackFrames"} & set(json.loads(path.read_text()))


def test_sections_of_another_tool_are_kept_as_they_are(tmp_path: Path) -> None:
    path, other = tmp_path / "trace.json", tmp_path / "other.json"
    sections = {"stackFrames": {"5": {"name": "f"}}, "samples": [{"tid": 1, "sf": 5, "ts": 1}]}
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "name": "a"}
    path.write_text(json.dumps({"traceEvents": [event], **sections}))
    trace = read_trace(path)
    assert len(trace.samples) == 0
    export_trace(trace, other)
    again = json.loads(other.read_text())
    assert {key: again[key] for key in sections} == sections


@pytest.mark.parametrize(
    "damage",
    [
        {"samples": "none"},
        {"samples": [None, 3, {"name": "python"}, {"name": "odd", "pid": 7, "tid": 7}]},
        {"stackFrames": [1]},
        {"stackFrames": {"1": None, "2": {"parent": "9"}, "3": {"parent": "3"}}},
    ],
)
def test_damaged_sections_lose_only_what_is_damaged(
    trace: Trace, damage: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    export_trace(trace, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    again = read_trace(path)
    assert len(again.slices) == 1
    assert len(again.samples) <= len(trace.samples)


def test_speedscope_gets_a_profile_for_each_thread(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.speedscope.json"
    export_trace(trace, path)
    content = json.loads(path.read_text())
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = content["shared"]["frames"]
    assert {"name": "main", "file": "a.py", "line": 1} in frames
    main, other = content["profiles"]
    assert (main["type"], main["name"], main["unit"]) == (
        *("sampled", "MainThread (7)", "nanoseconds"),
    )
    named = [[frames[i]["name"] for i in sample] for sample in main["samples"]]
    assert named == [
        ["main"],
        ["main", "work; b", "<native call time.sleep>", "<sleeps>"],
        ["main", "work; b", "<waits for the GIL>"],
        ["main", "work; b"],
    ]
    assert main["weights"] == [999, 5_000, 1_000, 2_000]
    assert main["endValue"] - main["startValue"] == sum(main["weights"])
    assert (other["name"], other["samples"], other["weights"]) == ("8", [[]], [4_000])


def test_speedscope_gets_slices_where_there_are_no_samples(tmp_path: Path) -> None:
    trace = made()
    slices = Slices.of(
        name=np.array([4, 1, 1, 4], np.uint32),
        category=np.full(4, 5, np.uint32),
        start_ns=np.array([1_000, 2_000, 4_000, 12_000], np.int64),
        duration_ns=np.array([9_000, 1_000, 6_000, 500], np.int64),
        track=np.zeros(4, np.uint32),
    )
    captured = Captured(slices, trace.tracks, trace.strings)
    path = tmp_path / "trace.speedscope.json"
    export_trace(build(captured, trace.info), path)
    content = json.loads(path.read_text())
    (profile,) = content["profiles"]
    assert profile["type"] == "evented"
    assert [(event["type"], event["frame"], event["at"]) for event in profile["events"]] == [
        *(("O", 1, 0), ("O", 0, 1_000), ("C", 0, 2_000), ("O", 0, 3_000), ("C", 0, 9_000)),
        *(("C", 1, 9_000), ("O", 1, 11_000), ("C", 1, 11_500)),
    ]


def test_folded_stacks_are_of_the_samples(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.folded"
    export_trace(trace, path)
    assert sorted(path.read_text().splitlines()) == [
        "8 4",
        "MainThread_(7);a.py(1):_main;a.py(2):_work__b 2",
        "MainThread_(7);a.py(1):_main;a.py(2):_work__b;<native_call_time.sleep>;<sleeps> 5",
        "MainThread_(7);a.py(1):_main;a.py(2):_work__b;<waits_for_the_GIL> 1",
    ]


def test_samples_are_saved_and_read(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.stepscope"
    export_trace(trace, path)
    again = read_trace(path)
    assert again.samples.duration_ns.tolist() == trace.samples.duration_ns.tolist()
    assert stacks_of(again) == stacks_of(trace)
    assert replace(again.info, user={}).producer == PRODUCER
