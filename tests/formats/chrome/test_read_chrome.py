"""Reading Chrome JSON: every event and arg of real files, and whatever else a file may hold."""

from __future__ import annotations

import gzip
import json
import math
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chrome_json import read_text, slice_of, trace_of
from sample_traces import OF_OTHERS, json_events, sample_name, sample_path
from stepscope.formats import read_trace
from stepscope.trace.model import SliceFlags

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Args, Trace

TRACK_NOTES = {
    "process_name",
    "process_labels",
    "process_sort_index",
    "thread_name",
    "thread_sort_index",
}
COLUMNS = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    return partial(read_text, tmp_path)


def pairs_of_rows(args: Args, rows: int, trace: Trace) -> list[dict[str, Any]]:
    """Return what ``Args.of_row`` gives, for all rows at once and with exact decimals."""
    pairs: list[dict[str, Any]] = [{} for _ in range(rows)]
    for key, column in args.integers.items():
        assert (np.diff(column.rows.astype(np.int64)) > 0).all()
        for row, value in zip(column.rows.tolist(), column.values.tolist(), strict=True):
            pairs[row][key] = value
    parsed: dict[int, dict[str, Any]] = {0: {}}
    for row, fragment in enumerate(args.rest.tolist()):
        if fragment not in parsed:
            text = "{" + trace.strings[fragment] + "}"
            parsed[fragment] = json.loads(text, parse_float=Decimal, strict=False)
        pairs[row].update(parsed[fragment])
    return pairs


def exact_ns(microseconds: Any) -> int:
    return math.floor(Decimal(microseconds) * 1000 + Decimal("0.5"))


def expected_slice(event: dict[str, Any]) -> tuple[int, int]:
    start = exact_ns(event["ts"])
    return start, exact_ns(Decimal(event["ts"]) + Decimal(event["dur"])) - start


def is_note(event: dict[str, Any]) -> bool:
    return event["ph"] == "M" and event["name"] in TRACK_NOTES


def check_rows(table: Any, events: list[dict[str, Any]], trace: Trace) -> None:
    names = trace.strings.decode_all()
    tracks = [(track.pid, track.tid) for track in trace.tracks]
    assert [names[i] for i in table.name] == [event["name"] for event in events]
    assert [names[i] for i in table.category] == [event.get("cat", "") for event in events]
    assert [tracks[i] for i in table.track] == [(str(e["pid"]), str(e["tid"])) for e in events]
    args = pairs_of_rows(table.args, len(events), trace)
    fields = pairs_of_rows(table.fields, len(events), trace)
    for event, own_args, own_fields in zip(events, args, fields, strict=True):
        assert own_args == event.get("args", {})
        assert own_fields == {key: event[key] for key in event.keys() - COLUMNS}


@pytest.mark.parametrize("path", OF_OTHERS, ids=sample_name)
def test_every_event_of_a_real_trace_is_kept_exactly(path: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    document = json.loads(text, parse_float=Decimal, strict=False)
    events = document.pop("traceEvents")

    trace = read_trace(path)

    slices = [(*expected_slice(event), event) for event in events if event["ph"] == "X"]
    slices.sort(key=lambda row: (row[0], -row[1]))
    marks = [event for event in events if event["ph"] != "X" and not is_note(event)]
    assert trace.slices.start_ns.tolist() == [start for start, _, _ in slices]
    assert trace.slices.duration_ns.tolist() == [duration for _, duration, _ in slices]
    check_rows(trace.slices, [event for _, _, event in slices], trace)
    assert [chr(phase) for phase in trace.marks.phase] == [event["ph"] for event in marks]
    assert trace.marks.time_ns.tolist() == [exact_ns(event["ts"]) for event in marks]
    check_rows(trace.marks, marks, trace)
    assert trace.info.user == json.loads(json.dumps(document, default=float))
    assert trace.info.wall_offset_ns == document.get("baseTimeNanoseconds", 0)
    assert trace.info.rank == document.get("distributedInfo", {}).get("rank")


@pytest.mark.parametrize("name", ["cpu_training", "h200_training"])
def test_tracks_carry_the_metadata_of_a_real_trace(name: str) -> None:
    path = sample_path(name)
    notes = [event for event in json_events(path) if is_note(event)]
    of_processes = {
        (note["name"], str(note["pid"])): next(iter(note["args"].values()))
        for note in notes
        if note["name"].startswith("process_")
    }
    of_threads = {
        (note["name"], str(note["pid"]), str(note["tid"])): next(iter(note["args"].values()))
        for note in notes
        if note["name"].startswith("thread_")
    }
    tracks = read_trace(path).tracks
    assert any(track.thread_name and track.process_label for track in tracks)
    for track in tracks:
        place = (track.pid, track.tid)
        assert track.process_name == of_processes.get(("process_name", track.pid), "")
        assert track.process_label == of_processes.get(("process_labels", track.pid), "")
        assert track.process_sort == of_processes.get(("process_sort_index", track.pid))
        assert track.thread_name == of_threads.get(("thread_name", *place), "")
        assert track.thread_sort == of_threads.get(("thread_sort_index", *place))


def test_the_columns_that_tie_events_together(read: Callable[..., Trace]) -> None:
    args = {"Sequence number": 7, "Fwd thread id": 3, "correlation": 11, "other": "x"}
    trace = read(trace_of(slice_of(args=args), slice_of(ts=5)))
    assert trace.slices.sequence.tolist() == [7, -1]
    assert trace.slices.forward_thread.tolist() == [3, -1]
    assert trace.slices.correlation.tolist() == [11, -1]
    assert trace.slices.args.of_row(0, trace.strings) == args


@pytest.mark.parametrize(
    ("text", "start_ns"),
    [
        ("1669783687464181", 1669783687464181000),
        ("701805216966.892", 701805216966892),
        ('"12.5"', 12500),
        ("-3.25", -3250),
        ("1.5e3", 1500000),
        ("25E-4", 3),
        ("0.0004999999", 0),
        ("0.0005", 1),
        ("-0.0005", 0),
        ("-0.00051", -1),
        ("+7", 7000),
        (".5", 500),
        ("00012", 12000),
    ],
)
def test_times_come_exactly_from_their_text(
    read: Callable[..., Trace], text: str, start_ns: int
) -> None:
    trace = read(f'[{{"ph": "X", "name": "n", "ts": {text}, "dur": 1}}]')
    assert trace.slices.start_ns.tolist() == [start_ns]


def test_what_is_nested_in_picoseconds_stays_nested(read: Callable[..., Trace]) -> None:
    outer = '{"ph": "X", "ts": 0.0004, "dur": 0.0012}'
    inner = '{"ph": "X", "ts": 0.0007, "dur": 0.0009}'
    trace = read(f"[{outer}, {inner}]")
    assert trace.slices.parent.tolist() == [-1, 0]
    assert not trace.info.anomalies


@pytest.mark.parametrize("text", ["1e400", "99999999999999999999", "9300000000000000"])
def test_a_time_out_of_range_is_kept_at_the_edge_and_counted(
    read: Callable[..., Trace], text: str
) -> None:
    trace = read(f'[{{"ph": "X", "ts": {text}, "dur": {text}}}, {{"ph": "X", "ts": -{text}}}]')
    assert trace.info.anomalies["times out of range"] == 3
    assert len(trace) == 2
    assert (trace.slices.end_ns >= trace.slices.start_ns).all()


def test_odd_durations_and_times_are_kept_and_counted(read: Callable[..., Trace]) -> None:
    events = [slice_of(dur=-5), slice_of(), slice_of(ts="soon"), slice_of(ts=None)]
    del events[1]["dur"]
    trace = read(trace_of(*events))
    assert trace.slices.duration_ns.tolist() == [1000, 1000, 0, 0]
    assert trace.info.anomalies == {
        "slices without a duration": 1,
        "slices with a negative duration": 1,
        "events without a time": 2,
    }


def test_begin_and_end_make_a_slice_with_the_args_of_both(read: Callable[..., Trace]) -> None:
    def edge(phase: str, ts: int, **fields: Any) -> dict[str, Any]:
        return {"ph": phase, "pid": 1, "tid": 1, "ts": ts, **fields}

    trace = read(
        trace_of(
            edge("B", 0, name="outer", args={"a": 1, "b": "x"}),
            edge("B", 2, name="inner"),
            edge("E", 3),
            edge("E", 9, args={"a": 2, "c": [1.5]}),
        )
    )
    assert list(trace.names()) == ["outer", "inner"]
    assert trace.slices.duration_ns.tolist() == [9000, 1000]
    assert trace.slices.parent.tolist() == [-1, 0]
    assert trace.slices.args.of_row(0, trace.strings) == {"a": 2, "b": "x", "c": [1.5]}


def test_begins_and_ends_without_each_other_are_kept(read: Callable[..., Trace]) -> None:
    trace = read(
        trace_of(
            {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 1},
            {"ph": "E", "name": "stray", "pid": 1, "tid": 2, "ts": 2, "args": {"k": "v"}},
            slice_of(ts=3, dur=7),
        )
    )
    assert trace.slices.duration_ns.tolist() == [9000, 7000]
    assert trace.slices.flags.tolist() == [SliceFlags.UNFINISHED, 0]
    assert [chr(phase) for phase in trace.marks.phase] == ["E"]
    assert trace.marks.args.of_row(0, trace.strings) == {"k": "v"}
    assert trace.info.anomalies == {"begins without an end": 1, "ends without a begin": 1}


def test_processes_and_threads_may_have_any_number(read: Callable[..., Trace]) -> None:
    largest, least = 2**63 - 1, -(2**63)
    events = [
        {"ph": "X", "name": "a", "pid": pid, "tid": tid, "ts": 1, "dur": 1}
        for pid, tid in [(largest, largest), (least, least), (433810204645720339, 7)]
    ]
    trace = read(json.dumps({"traceEvents": events}))
    assert {(track.pid, track.tid) for track in trace.tracks} == {
        (str(event["pid"]), str(event["tid"])) for event in events
    }


def test_equal_text_is_one_track_whether_number_or_string(read: Callable[..., Trace]) -> None:
    ids = [(1, 12), ("1", "12"), (11, 2), (-1, "stream 7"), ("", ""), (None, None), (1.5, True)]
    trace = read(trace_of(*(slice_of(pid=pid, tid=tid) for pid, tid in ids)))
    assert [(t.pid, t.tid) for t in trace.tracks] == [
        ("1", "12"),
        ("11", "2"),
        ("-1", "stream 7"),
        ("", ""),
        ("1.5", "true"),
    ]
    assert trace.slices.track.tolist() == [0, 0, 1, 2, 3, 3, 4]


def test_metadata_names_tracks_and_other_metadata_stays(read: Callable[..., Trace]) -> None:
    def note(what: str, tid: Any, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": 1, "tid": tid, "ts": 0, "args": args}

    trace = read(
        trace_of(
            note("process_name", 0, name='py"thon</script>'),
            note("process_labels", 0, labels="CPU"),
            note("process_sort_index", 0, sort_index=5),
            note("thread_name", 2, name="\ud83d\ude00"),
            note("thread_sort_index", 2, sort_index=-3),
            note("num_cpus", 0, number=2),
            note("thread_name", 2, name="more", extra=1),
            note("process_name", 0, name=7),
            slice_of(),
        )
    )
    (track,) = [track for track in trace.tracks if track.tid == "2"]
    assert (track.process_name, track.process_label) == ('py"thon</script>', "CPU")
    assert (track.process_sort, track.thread_sort) == (5, -3)
    assert track.thread_name == "\U0001f600"
    assert [chr(phase) for phase in trace.marks.phase] == ["M", "M", "M"]


def test_a_named_process_without_events_keeps_its_name(read: Callable[..., Trace]) -> None:
    note = {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "idle"}}
    trace = read(trace_of(note, slice_of()))
    assert [(t.pid, t.process_name) for t in trace.tracks] == [("1", ""), ("9", "idle")]


def test_all_other_phases_are_marks(read: Callable[..., Trace]) -> None:
    phases = "stfiIRCneTpFNOD"  # an end without a begin, too
    events = [{"ph": phase, "name": "m", "ts": 1, "pid": 1, "tid": 1} for phase in phases]
    trace = read(trace_of(*events, {"ph": "long", "ts": 1}, {"name": "none"}))
    assert "".join(map(chr, trace.marks.phase)) == phases + "??"
    assert trace.marks.fields.of_row(len(phases), trace.strings) == {"ph": "long"}


def test_fields_beside_args_are_kept(read: Callable[..., Trace]) -> None:
    event = {"ph": "f", "id": 7, "bp": "e", "cname": "good", "dur": 3, "ts": 1, "args": [1, "x"]}
    trace = read(trace_of(event))
    fields = {key: event[key] for key in ("id", "bp", "cname", "dur", "args")}
    assert trace.marks.fields.of_row(0, trace.strings) == fields


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 2**63 - 1, -(2**63), 2**63, 10**30, 1.5, 1e300, True, None),
        *("", 'a\nb"\\/\u2028', [], {}, [{"a": [1, {"b": "]}"}]}], {"deep": [[[[1.25]]]]}),
    ],
)
def test_any_arg_survives(read: Callable[..., Trace], value: Any) -> None:
    args = {"before": 1, 'ke"y\n': value, "": 2, "after": "x"}
    trace = read(trace_of(slice_of(args=args)))
    assert trace.slices.args.of_row(0, trace.strings) == args


def test_words_that_are_no_json_become_something_that_is(read: Callable[..., Trace]) -> None:
    args = '{"a": nan, "b": -inf, "c": Infinity, "d": 007, "e": 0x1F, "f": [-nan, True], "g": -0}'
    trace = read(f'[{{"ph": "X", "ts": 1, "dur": 1, "args": {args}}}]')
    arguments = trace.slices.args.of_row(0, trace.strings)
    assert math.isnan(arguments["a"])
    assert arguments["b"] == -math.inf
    assert arguments["c"] == math.inf
    assert (arguments["d"], arguments["e"], arguments["g"]) == ("007", "0x1F", 0)
    assert arguments["f"][1] == "True"


def test_hostile_strings_are_decoded(read: Callable[..., Trace]) -> None:
    names = [
        (rb"\u0041\n\t\"\\\/\b\f\r", 'A\n\t"\\/\b\f\r'),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\ud83d and \ude00", "\ufffd and \ufffd"),
        (rb"\ud83d\u0041", "\ufffdA"),
        (b"raw \n\t\x01 control", "raw \n\t\x01 control"),
        (b"bad \xff\xe2\x82 utf8 \xed\xa0\x80", "bad \ufffd\ufffd utf8 \ufffd\ufffd\ufffd"),
        (rb"C:\path\x\u12", "C:\\path\\x\\u12"),
        ("</script>é漢\u2028".encode(), "</script>é漢\u2028"),
    ]
    for raw, expected in names:
        text = b'[{"ph":"X","ts":1,"dur":1,"name":"%b","args":{"k%b":"%b"}}]' % (raw, raw, raw)
        trace = read(text)
        assert trace.name_of(0) == expected
        (value,) = trace.slices.args.of_row(0, trace.strings).values()
        assert value.encode("utf-8", "replace").decode() == value or "\ud83d" in value


def test_a_byte_order_mark_windows_lines_and_stray_commas(read: Callable[..., Trace]) -> None:
    text = '\ufeff {\r\n"traceEvents": [,\r\n{"ph": "X",\r\n"ts": 1, "dur": 2,},,\r\n]\r\n}\r\n'
    trace = read(text)
    assert trace.slices.duration_ns.tolist() == [2000]
    assert not trace.info.anomalies


@pytest.mark.parametrize(
    ("keys", "producer"),
    [
        ('"schemaVersion": 1,', "torch.profiler"),
        ('"schemaVersion": 1, "stepscope": {},', "stepscope, exported"),
        ('"metadata": {"highres-ticks": true},', "XLA"),
        ('"metadata": 3,', "chrome"),
        ("", "chrome"),
    ],
)
def test_who_wrote_a_file(read: Callable[..., Trace], keys: str, producer: str) -> None:
    assert read("{" + keys + '"traceEvents": []}').info.producer == producer


def test_top_level_keys_before_and_after_the_events(read: Callable[..., Trace]) -> None:
    text = (
        '{"baseTimeNanoseconds": 17, "distributedInfo": {"rank": 3, "world_size": 8},'
        ' "traceEvents": [{"ph": "X", "ts": 1, "dur": 1}], "INFO": ["a\\"b"], "host_name": "h"}'
    )
    info = read(text).info
    assert info.user == {
        "baseTimeNanoseconds": 17,
        "distributedInfo": {"rank": 3, "world_size": 8},
        "INFO": ['a"b'],
        "host_name": "h",
    }
    assert (info.producer, info.wall_offset_ns, info.host) == ("chrome", 17, "h")
    assert (info.rank, info.world_size) == (3, 8)
    assert (info.start_ns, info.end_ns) == (1000, 2000)


def test_content_decides_not_the_name(read: Callable[..., Trace]) -> None:
    text = trace_of(slice_of())
    assert len(read(text, "plain.json.gz")) == 1
    assert len(read(gzip.compress(text.encode()), "packed.json")) == 1
    two_members = gzip.compress(text[:20].encode()) + gzip.compress(text[20:].encode())
    assert len(read(two_members + bytes(7), "members.gz")) == 1


def test_gzip_is_read_without_the_fast_library_too(
    read: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    text = trace_of(*[slice_of(ts=i) for i in range(30_000)]).encode()
    assert len(read(gzip.compress(text))) == 30_000


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(trace_of(*[slice_of(ts=i) for i in range(20_000)]).encode()))
    seen: list[tuple[int, int]] = []
    read_trace(path, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


@given(
    st.decimals(-(10**12), 10**12, places=9, allow_nan=False),
    st.decimals(0, 10**9, places=6, allow_nan=False),
    st.sampled_from(["{:f}", "{:e}", '"{:f}"', "{:E}"]),
)
def test_times_are_exact_decimal_arithmetic(
    tmp_path_factory: pytest.TempPathFactory, ts: Decimal, dur: Decimal, form: str
) -> None:
    path = tmp_path_factory.mktemp("times") / "trace.json"
    path.write_text(f'[{{"ph": "X", "ts": {form.format(ts)}, "dur": {form.format(dur)}}}]')
    trace = read_trace(path)
    expected = expected_slice({"ts": ts, "dur": dur})
    assert (int(trace.slices.start_ns[0]), int(trace.slices.duration_ns[0])) == expected
