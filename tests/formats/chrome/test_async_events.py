"""Asynchronous events of Chrome's JSON: ranges of their own, and a file that says the same."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from chrome_json import read_text, slice_of, trace_of
from stepscope.analysis.host.step_operators import step_operators
from stepscope.cli.base.show import headline
from stepscope.formats import read_trace
from stepscope.formats.base.asynchronous import async_rows
from stepscope.formats.chrome.write import export_chrome
from stepscope.formats.perfetto.write import export_perfetto
from stepscope.trace.model import SliceFlags, SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def event(ph: str, name: str, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": ph, "cat": "load", "name": name, "pid": 1, "tid": 2, "ts": ts, "id": 7, **more}


Range = tuple[str, float, float, str, str]


def listed(trace: Trace) -> list[Range]:
    """Return name, start and duration in µs, the parent's name and the track of each range."""
    slices = trace.slices
    return sorted(
        (
            trace.name_of(row),
            int(slices.start_ns[row]) / 1000,
            int(slices.duration_ns[row]) / 1000,
            trace.name_of(int(slices.parent[row])) if slices.parent[row] >= 0 else "",
            trace.tracks[int(slices.track[row])].tid,
        )
        for row in async_rows(slices).tolist()
    )


def ranges(trace: Trace) -> dict[str, tuple[float, float, str, str]]:
    return {
        name: (start, lasts, inside, track) for name, start, lasts, inside, track in listed(trace)
    }


def test_nestable_events_nest_in_their_operation_and_hold_nothing_else(tmp_path: Path) -> None:
    text = trace_of(
        event("b", "fetch", 0),
        slice_of(name="work", ts=1, dur=50),
        event("b", "connect", 2, args={"host": "a"}),
        event("n", "first byte", 3),
        event("e", "connect", 5, tid=9, args={"bytes": 12}),
        event("b", "other", 1, id=8),
        event("e", "fetch", 30),
        event("e", "other", 40, id=8),
    )
    trace = read_text(tmp_path, text)
    assert ranges(trace) == {
        "fetch": (0, 30, "", "async load"),
        "connect": (2, 3, "fetch", "async load"),
        "other": (1, 39, "", "async load 2"),
    }
    names = [trace.name_of(row) for row in range(len(trace))]
    work, connect = names.index("work"), names.index("connect")
    assert trace.slices.parent[work] == -1
    assert trace.slices.self_ns[work] == 50_000
    assert trace.slices.args.of_row(connect, trace.strings) == {"host": "a", "bytes": 12}
    assert [chr(phase) for phase in trace.marks.phase] == ["n"]
    assert not trace.info.anomalies


def test_the_older_letters_and_ends_without_a_name(tmp_path: Path) -> None:
    text = trace_of(
        event("S", "a", 0, id="0x1f"),
        event("S", "b", 5, id="0x1f"),
        event("T", "a", 6, id="0x1f", args={"step": 1}),
        event("F", "a", 10, id="0x1f"),
        event("F", "b", 20, id="0x1f"),
        {**event("b", "c", 1, id=1), "cat": "net"},
        {"ph": "e", "cat": "net", "pid": 1, "tid": 2, "ts": 4, "id": 1},
    )
    result = ranges(read_text(tmp_path, text))
    assert {name: item[:2] for name, item in result.items()} == {
        "a": (0, 10),
        "b": (5, 15),
        "c": (1, 3),
    }
    assert len({value[3] for value in result.values()}) == 3  # a and b cross


def test_ids_of_processes_and_of_the_file(tmp_path: Path) -> None:
    text = trace_of(
        event("b", "mine", 0, pid=1),
        event("b", "mine", 1, pid=2),
        event("e", "mine", 10, pid=1),
        event("e", "mine", 30, pid=2),
        event("b", "sent", 0, id=9, pid=1),
        event("e", "sent", 7, id=9, pid=2),
        event("b", "local", 0, id2={"local": "0x1"}, pid=1),
        event("e", "local", 7, id2={"local": "0x1"}, pid=2),
    )
    trace = read_text(tmp_path, text)
    lasting = sorted(trace.slices.duration_ns[async_rows(trace.slices)].tolist())
    assert lasting == [7_000, 10_000, 29_000, 30_000]
    assert trace.info.anomalies == {"begins without an end": 1, "ends without a begin": 1}
    unfinished = trace.slices.flags & SliceFlags.UNFINISHED != 0
    assert [trace.name_of(row) for row in np.flatnonzero(unfinished).tolist()] == ["local"]
    assert [chr(phase) for phase in trace.marks.phase] == ["e"]


def written(trace: Trace, path: Path) -> list[dict[str, Any]]:
    export_chrome(trace, path)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [item for item in events if item["ph"] != "M"]


def essentials(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    keys = ("ts", "ph", "cat", "name", "pid", "tid", "id", "id2", "scope", "tts", "args")
    return sorted(
        (tuple(str(item.get(key) or "") for key in keys) for item in events), key=lambda e: e
    )


def test_a_file_says_the_same_again(tmp_path: Path) -> None:
    events = [
        event("b", "fetch", 0, tts=5, args={"url": "x"}),
        event("b", "fetch", 0, tts=5),
        event("e", "fetch", 0, tts=6),
        event("b", "fetch", 4),
        event("e", "fetch", 4),
        event("e", "fetch", 8, tid=11, tts=9),
        event("b", "fetch", 8),
        event("e", "fetch", 9),
        event("S", "old", 1, id="0x3", tid=5),
        event("p", "old", 2, id="0x3", tid=5),
        event("F", "old", 3, id="0x3", tid=6),
        event("b", "open", 3, id2={"global": "0x9"}, scope="s"),
        event("e", "stray", 3, id=99),
        slice_of(name="work", args={"n": 1}),
    ]
    first = read_text(tmp_path, trace_of(*events))
    again = written(first, tmp_path / "again.json")
    for item in again:
        item["ts"] = float(item["ts"])
    for item in events:
        item["ts"] = float(item["ts"])
    assert essentials(again) == essentials(events)
    second = read_trace(tmp_path / "again.json")
    assert listed(second) == listed(first)
    assert written(second, tmp_path / "third.json") == written(first, tmp_path / "again2.json")


def test_any_mixture_survives_being_written(tmp_path: Path) -> None:
    for seed in range(20):
        choose = random.Random(seed)
        events = [
            event(
                choose.choice("bbeeSFnX"),
                choose.choice("xyz"),
                choose.randrange(30),
                id=choose.randrange(3),
                pid=choose.randrange(2),
                dur=1,
            )
            for _ in range(40)
        ]
        first = read_text(tmp_path, trace_of(*events))
        begins = sum(item["ph"] in "bS" for item in events)
        assert len(async_rows(first.slices)) == begins
        ends = sum(item["ph"] in "eF" for item in events)
        stray = first.info.anomalies.get("ends without a begin", 0)
        cut = first.info.anomalies.get("begins without an end", 0)
        assert begins - cut == ends - stray
        again = written(first, tmp_path / "again.json")
        second = read_trace(tmp_path / "again.json")
        assert listed(second) == listed(first)
        assert len(again) == len(events)


def test_perfetto_keeps_tracks_and_nesting(tmp_path: Path) -> None:
    text = trace_of(
        event("b", "fetch", 0),
        slice_of(name="work", ts=1, dur=50),
        event("b", "connect", 2),
        event("e", "connect", 5),
        event("e", "fetch", 30),
    )
    trace = read_text(tmp_path, text)
    export_perfetto(trace, tmp_path / "a.pftrace")
    again = read_trace(tmp_path / "a.pftrace")
    names = [again.name_of(row) for row in range(len(again))]
    parent = again.slices.parent[names.index("connect")]
    assert again.name_of(int(parent)) == "fetch"
    assert again.slices.parent[names.index("work")] == -1
    at = again.tracks[int(again.slices.track[names.index("fetch")])]
    assert (at.tid, at.thread_name) == ("async load", "load (async)")


def test_what_never_ends_takes_no_more_than_some_tracks(tmp_path: Path) -> None:
    events = [event("b", f"op {i}", i, id=i) for i in range(500)]
    trace = read_text(tmp_path, trace_of(*events))
    assert len(trace.slices) == 500
    assert len(trace.tracks) <= 66


def test_the_summary_counts_them_apart(tmp_path: Path) -> None:
    trace = read_text(tmp_path, trace_of(slice_of(), event("b", "x", 0), event("e", "x", 2)))
    assert headline(trace).startswith("2 events on 1 thread and 1 async track")


def test_a_trace_of_functions_alone_is_summarized(tmp_path: Path) -> None:
    events = [slice_of(cat="fee", name="f (a.py:1)", dur=9), slice_of(cat="FEE", name="g", ts=2)]
    trace = read_text(tmp_path, trace_of(*events))
    assert set(trace.slices.kind.tolist()) == {SliceKind.PYTHON}
    assert step_operators(trace).name == ("f (a.py:1)", "g")
    plain = read_text(tmp_path, trace_of(slice_of(name="anything")))
    assert step_operators(plain).name == ("anything",)
