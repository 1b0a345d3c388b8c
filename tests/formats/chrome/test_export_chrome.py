from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_traces import HOSTILE, OF_OTHERS, SAMPLES, assert_same, recording, sample_name
from stepscope import _native
from stepscope.formats import export_trace, read_trace
from stepscope.formats.chrome import write as chrome
from stepscope.formats.chrome.write import write_chrome
from stepscope.trace.model import Args, IntColumn, Marks, SliceFlags, Trace
from stepscope.trace.strings import Strings
from torch_json import header_of, load_json, ns, recording_from_torch

if TYPE_CHECKING:
    from pathlib import Path


def document_of(trace: Trace, trace_name: str = "") -> dict[str, Any]:
    file = io.BytesIO()
    write_chrome(trace, file, trace_name)
    return load_json(file.getvalue())


def events_of(trace: Trace, phase: str = "X") -> list[dict[str, Any]]:
    return [event for event in document_of(trace)["traceEvents"] if event["ph"] == phase]


def test_a_recording_looks_like_torch_profilers_file(tmp_path: Path) -> None:
    trace = recording(
        start_ns=1_000_000,
        end_ns=2_000_000,
        wall_offset_ns=1_700_000_000_000_000_000,
        host="box",
        pid=12,
        rank=3,
        world_size=8,
        user={"trace_id": "AB12", "note": "mine"},
    )
    export_trace(trace, tmp_path / "golden.json")
    text = (tmp_path / "golden.json").read_text().replace(str(tmp_path), "PATH")
    assert (
        text
        == """{
"schemaVersion": 1,
"deviceProperties": [],
"distributedInfo": {"rank": 3, "world_size": 8},
"trace_id": "AB12",
"host_name": "box",
"displayTimeUnit": "ms",
"baseTimeNanoseconds": 1700000000000000000,
"stepscope": {"versions": {}, "sources": {}, "start_ns": 1000000, "end_ns": 2000000, "pid": 12, \
"losses": {"events": 0, "policy": "", "limit_bytes": 0}, "overhead_ns": 0.0, "anomalies": {}},
"traceName": "PATH/golden.json",
"note": "mine",
"traceEvents": [
{"ph": "M", "name": "process_name", "ts": 1000.000, "pid": 12, "tid": 0, \
"args": {"name": "python"}},
{"ph": "M", "name": "process_labels", "ts": 1000.000, "pid": 12, "tid": 0, \
"args": {"labels": "CPU"}},
{"ph": "M", "name": "process_sort_index", "ts": 1000.000, "pid": 12, "tid": 0, \
"args": {"sort_index": 12}},
{"ph": "M", "name": "thread_name", "ts": 1000.000, "pid": 12, "tid": 34, \
"args": {"name": "main"}},
{"ph": "M", "name": "thread_sort_index", "ts": 1000.000, "pid": 12, "tid": 34, \
"args": {"sort_index": 34}},
{"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 12, "tid": 34, \
"ts": 1000.000, "dur": 1000.000, "args": {"External id": 1, "Ev Idx": 0}},
{"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 12, "tid": 34, \
"ts": 1001.500, "dur": 996.999, "args": {"External id": 2, "Ev Idx": 1}}
]}
"""
    )


def test_an_empty_trace_is_a_valid_file() -> None:
    assert events_of(recording([])) == []
    assert document_of(replace(recording([]), tracks=()))["traceEvents"] == []


def test_times_are_microseconds_with_every_nanosecond() -> None:
    times = [-(2**63), -1_001, -1, 0, 1, 999, 1_000, 1_723_456_789_123_456_789, 2**63 - 1]
    trace = recording([str(time) for time in times])
    slices = replace(
        trace.slices,
        start_ns=np.array(times, np.int64),
        duration_ns=np.arange(len(times), dtype=np.int64),
    )
    for event, time in zip(events_of(replace(trace, slices=slices)), times, strict=True):
        assert event["ts"] * 1000 == time
        assert event["ts"].as_tuple().exponent == -3
        assert event["name"] == str(time)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_arrive_unchanged_wherever_they_stand(text: str) -> None:
    number = IntColumn(np.zeros(1, np.uint32), np.array([7]))
    trace = recording([text, text], Args({text: number}), host=text, user={text: [text]})
    tracks = (replace(trace.tracks[0], pid=text, thread_name=text, process_name=text),)
    document = document_of(replace(trace, tracks=tracks), trace_name=text)
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [text, text]
    assert slices[0]["args"][text] == 7
    assert slices[0]["pid"] == text
    assert document["host_name"] == document["traceName"] == text
    assert document[text] == [text]
    assert text in [event["args"].get("name") for event in document["traceEvents"]]


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=5))
def test_broken_utf8_is_replaced_as_python_replaces_it(names: list[bytes]) -> None:
    trace = recording(["x"] * len(names))
    blob = b"".join([b"cpu_op", *names])
    offsets = np.cumsum([0, 0, 6, *(len(name) for name in names)])
    events = events_of(replace(trace, strings=Strings(blob, offsets)))
    assert [event["name"] for event in events] == [n.decode("utf-8", "replace") for n in names]


def test_lone_surrogates_become_replacement_characters() -> None:
    [event] = events_of(recording(["a\ud800b"]))
    assert event["name"] == "a\ufffd\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("fragment", "pairs"),
    [
        ('"Input Dims": [[2, 3], []], "s": "a, {b"', {"Input Dims": [[2, 3], []], "s": "a, {b"}),
        ('"x": NaN, "y": [Infinity, -Infinity]', {"x": "NaN", "y": ["Infinity", "-Infinity"]}),
        ('"NaN": "Infinity -1"', {"NaN": "Infinity -1"}),
        ('"raw": "a\nb\x00c"', {"raw": "a\nb\x00c"}),
        (r'"path": "C:\python\x", "u": "\u00e9\u12"', {"path": r"C:\python\x", "u": "é\\u12"}),
        (r'"quote": "\"", "end": "\\"', {"quote": '"', "end": "\\"}),
    ],
)
def test_json_fragments_are_written_as_they_are_or_mended(
    fragment: str, pairs: dict[str, Any]
) -> None:
    trace = recording(["op", fragment])
    rest = np.array([3, 0], np.uint32)
    slices = replace(trace.slices, args=Args(rest=rest), name=np.array([2, 2], np.uint32))
    first, second = events_of(replace(trace, slices=slices))
    assert first["args"] == {"External id": 1, "Ev Idx": 0, **pairs}
    assert second["args"] == {"External id": 2, "Ev Idx": 1}


def test_a_recordings_args_win_over_derived_ones() -> None:
    remaining = IntColumn(np.array([0, 1], np.uint32), np.array([70, 80]))
    first, second = events_of(recording(args=Args({"External id": remaining})))
    assert (first["args"]["External id"], second["args"]["External id"]) == (70, 80)


def test_unfinished_slices_say_so() -> None:
    trace = recording()
    flags = np.array([SliceFlags.UNFINISHED, 0], np.uint8)
    first, second = events_of(replace(trace, slices=replace(trace.slices, flags=flags)))
    assert first["args"]["Unfinished"] == 1
    assert "Unfinished" not in second["args"]


def test_user_metadata_cannot_replace_what_readers_rely_on() -> None:
    user = {"schemaVersion": 9, "traceEvents": [1], "mine": {"lr": float("nan"), "l": [1e300]}}
    document = document_of(recording(user=user))
    assert document["schemaVersion"] == 1
    assert document["user.schemaVersion"] == 9
    assert document["user.traceEvents"] == [1]
    assert document["mine"]["lr"] == "nan"


def test_two_exports_of_one_recording_share_the_trace_id() -> None:
    trace = recording(host="box")
    assert document_of(trace)["trace_id"] == document_of(trace)["trace_id"]
    assert document_of(trace)["trace_id"] != document_of(recording(host="other"))["trace_id"]


def test_a_foreign_trace_gets_nothing_that_was_not_there() -> None:
    trace = recording(producer="another tool", user={"schemaVersion": 5, "traceName": "theirs"})
    document = document_of(trace, "ours.json")
    assert {key: value for key, value in document.items() if key != "traceEvents"} == {
        "schemaVersion": 5,
        "traceName": "theirs",
    }
    assert all("args" not in event for event in document["traceEvents"] if event["ph"] == "X")


def test_marks_keep_their_phase_fields_and_args() -> None:
    trace = recording(["flow", '"bp": "e"'])
    row = np.zeros(1, np.uint32)
    marks = Marks(
        phase=np.frombuffer(b"fC", np.uint8),
        category=np.array([1, 0], np.uint32),
        name=np.array([2, 2], np.uint32),
        time_ns=np.array([1_500, 2_000]),
        track=np.zeros(2, np.uint32),
        args=Args({"value": IntColumn(row + 1, np.array([-3]))}),
        fields=Args({"id": IntColumn(row, np.array([9]))}, np.array([3, 0], np.uint32)),
    )
    events = document_of(replace(trace, marks=marks))["traceEvents"][-2:]
    where = {"name": "flow", "pid": 12, "tid": 34}
    flow = {"ph": "f", "cat": "cpu_op", "id": 9, "bp": "e", **where}
    counter = {"ph": "C", "args": {"value": -3}, **where}
    assert [{k: v for k, v in event.items() if k != "ts"} for event in events] == [flow, counter]
    assert [ns(event["ts"]) for event in events] == [1_500, 2_000]


def without_order(events: list[dict[str, Any]]) -> list[str]:
    """Return what the events say, times exact, ids as text, other fractions as floats."""

    def name_of(event: dict[str, Any]) -> str:
        times = {key: ns(event[key]) for key in ("ts", "dur") if key in event}
        ids = {key: str(event.get(key, "")) for key in ("pid", "tid")}
        plain = {key: value for key, value in event.items() if value not in ("", {})}
        return json.dumps({**plain, **times, **ids}, default=float, sort_keys=True)

    return sorted(name_of(event) for event in events if event["ph"] != "M")


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
def test_real_traces_survive_reading_and_writing(tmp_path: Path, path: Path) -> None:
    trace = read_trace(path)
    export_trace(trace, tmp_path / "again.json")
    assert_same(read_trace(tmp_path / "again.json"), trace)

    if path in OF_OTHERS:
        theirs = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
        ours = load_json((tmp_path / "again.json").read_bytes())
        assert without_order(ours["traceEvents"]) == without_order(theirs["traceEvents"])
        assert header_of(ours) == header_of(theirs)


def torch_document(tmp_path: Path, steps: Any) -> dict[str, Any]:
    """Run ``steps`` under torch.profiler and return its own file."""
    profiler = pytest.importorskip("torch.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as recorded:
        steps()
    path = tmp_path / "torch.json"
    recorded.export_chrome_trace(str(path))
    return load_json(path.read_text())


def flows_of(document: dict[str, Any]) -> set[tuple[int, int]]:
    """Return the start times of the slices that each flow ties together."""
    ends: dict[str, dict[int, int]] = {"s": {}, "f": {}}
    for event in document["traceEvents"]:
        if event["ph"] in ends:
            assert event["cat"] == event["name"] == "fwdbwd"
            assert event.get("bp") == ("e" if event["ph"] == "f" else None)
            ends[event["ph"]][event["id"]] = ns(event["ts"])
    assert ends["s"].keys() == ends["f"].keys()
    return {(start, ends["f"][flow]) for flow, start in ends["s"].items()}


def test_backward_functions_are_tied_to_forward_operators_as_torch_ties_them(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(
        torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(6, 6)
    )
    attention = torch.nn.MultiheadAttention(6, 2)
    inputs = torch.randn(3, 2, 8)

    def steps() -> None:
        for _ in range(2):
            hidden = network(inputs)
            output, _ = attention(hidden, hidden, hidden)
            loss = output.square().mean()
            loss.backward(retain_graph=True)
            loss.backward()
            with torch.no_grad():
                network(inputs)

    theirs = torch_document(tmp_path, steps)
    expected = flows_of(theirs)
    assert len(expected) > 20
    assert flows_of(document_of(recording_from_torch(theirs))) == expected


def test_every_torch_event_comes_back_with_torchs_own_args(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, 3, requires_grad=True)
    theirs = torch_document(tmp_path, lambda: (weight @ weight).sum().backward())
    keys = ("Sequence number", "Fwd thread id", "Ev Idx")

    def metadata_of(document: dict[str, Any]) -> list[Any]:
        slices = [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
        slices.sort(key=lambda e: (e["ts"], -e["dur"]))
        same = ("cat", "name", "pid", "tid", "ts", "dur")
        return [[*(e[key] for key in same), *(e["args"].get(key) for key in keys)] for e in slices]

    assert metadata_of(document_of(recording_from_torch(theirs))) == metadata_of(theirs)


def test_chunks_join_to_the_same_text_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recording([*HOSTILE, *(f"op {i}" for i in range(200))])
    whole = io.BytesIO()
    write_chrome(trace, whole)
    monkeypatch.setattr(chrome, "_CHUNK_BYTES", 100)
    in_pieces = io.BytesIO()
    write_chrome(trace, in_pieces)
    assert in_pieces.getvalue() == whole.getvalue()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("name", np.array([2, 99], np.uint32)),
        ("category", np.array([1], np.uint32)),
        ("track", np.array([0, 1], np.uint32)),
        ("args", Args({"k": IntColumn(np.array([1, 0], np.uint32), np.array([1, 2]))})),
        ("args", Args({"k": IntColumn(np.array([2], np.uint32), np.array([1]))})),
        ("args", Args(rest=np.array([0, 99], np.uint32))),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: str, values: Any) -> None:
    trace = recording(producer="another tool")
    broken = replace(trace, slices=replace(trace.slices, **{column: values}))
    with pytest.raises(ValueError, match=r"not there|rows|ascend"):
        document_of(broken)


def test_a_string_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="offsets"):
        _native.ChromeWriter(b"abc", np.array([0, 9]), [], False)
