"""Reading files that are damaged, cut, hostile or no traces: what they hold, or one clear line."""

from __future__ import annotations

import gzip
import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chrome_json import read_text, slice_of, trace_of
from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats import read_trace
from stepscope.formats.chrome.read import read_chrome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import Trace


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    return partial(read_text, tmp_path)


def test_entries_that_are_no_events_are_counted(read: Callable[..., Trace]) -> None:
    trace = read('[null, 5, "x", {}, [1], {"ph": "X", "ts": 1, "dur": 1}]')
    assert len(trace) == 1
    assert trace.info.anomalies == {"entries that are no events": 5}


def test_an_event_that_makes_no_sense_does_not_cost_the_next_one(
    read: Callable[..., Trace],
) -> None:
    good = json.dumps(slice_of(args={"list": [{"name": 1}, {"name": 2}]}))
    bad = '{"ph": "X", "name": "say "hi" twice", "ts": 1, "dur": 1, "args": {}}'
    with pytest.warns(TraceReadWarning, match="not valid JSON from byte"):
        trace = read(f'{{"traceEvents": [{good}, {bad}, {good}, {bad}, {good}], "a": 1}}')
    assert len(trace) == 3
    assert trace.info.anomalies == {"malformed events skipped": 2}
    assert trace.info.user == {"a": 1}


def test_broken_metadata_does_not_cost_the_events(read: Callable[..., Trace]) -> None:
    with pytest.warns(TraceReadWarning, match="not valid JSON from byte"):
        trace = read('{"key": "say "hi"", "traceEvents": [{"ph": "X", "ts": 1, "dur": 1}]}')
    assert len(trace) == 1


def test_a_last_event_that_makes_no_sense_is_one_warning(read: Callable[..., Trace]) -> None:
    with pytest.warns(TraceReadWarning) as warned:
        trace = read('[{"ph": "X", "ts": 1, "dur": 1}, {"ph": "X" "ts"}]')
    assert len(trace) == 1
    assert [str(warning.message).split(" is ")[1] for warning in warned] == [
        "not valid JSON from byte 33 on; 1 events could be read"
    ]


def test_nesting_of_any_depth_is_skipped_not_followed(read: Callable[..., Trace]) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    objects = '{"a":' * 300 + "1" + "}" * 300
    event = f'{{"ph": "X", "ts": 1, "dur": 1, "args": {{"deep": {deep}, "o": {objects}, "n": 1}}}}'
    trace = read(f'{{"top": {deep}, "traceEvents": [{event}]}}')
    args = trace.slices.args.of_row(0, trace.strings)
    assert args == {"deep": deep, "o": objects, "n": 1}
    assert trace.info.user == {"top": deep}


def test_more_keys_than_columns_are_worth(read: Callable[..., Trace]) -> None:
    events = [slice_of(ts=i, args={f"key {i}": i}) for i in range(6000)]
    trace = read(trace_of(*events))
    assert len(trace.slices.args.integers) < 5000
    assert trace.slices.args.of_row(5999, trace.strings) == {"key 5999": 5999}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.json", b"", "is empty"),
        ("blank.json", b" \n ", "is not a trace"),
        ("text.json", b"hello", "is not a trace"),
        ("zeros.json", bytes(1000), "is not a trace"),
        ("text.gz", gzip.compress(b"hello", mtime=0), "is not a trace"),
        ("empty.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("cut.gz", gzip.compress(b"[]", mtime=0)[:10], "cannot be read: the gzip data ends early"),
        ("fake.gz", b"\x1f\x8bnot gzip at all", "cannot be read: the gzip data is damaged"),
        ("object.json", b'{"a": [1, 2]}', "is JSON without trace events"),
        ("null.json", b'{"traceEvents": null}', "is JSON without trace events"),
        ("list.json", b"[1, 2, 3]", "is JSON without trace events"),
        ("short.json", b'{"schemaVersion": 1, "dev', "ends early (byte 25), before the first"),
        ("broken.json", b'{"a": "b" "c"}', "is not valid JSON (byte"),
    ],
)
def test_what_is_no_trace_is_one_clear_error(
    read: Callable[..., Trace], name: str, content: bytes, reason: str
) -> None:
    with pytest.raises(TraceReadError) as error:
        read(content, name)
    assert reason in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_or_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TraceReadError, match="does not exist"):
        read_trace(tmp_path / "missing.json")
    with pytest.raises(TraceReadError, match="is a folder"):
        read_chrome(tmp_path)


SMALL = trace_of(
    slice_of(name="ä\n", args={"a": 1, "b": [1.5, "x"], "c": {}}),
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
    slice_of(ts="2.5", tid="x", dur=0.25),
    {"ph": "s", "id": 3, "ts": 1, "pid": 1, "tid": 2, "bp": "e"},
    displayTimeUnit="ms",
).encode()


def complete_events(prefix: bytes) -> int:
    """Count the events of SMALL that a prefix of it holds in full."""
    decoder = json.JSONDecoder()
    text = prefix.decode("utf-8", "ignore")
    at = text.find("[") + 1
    count = 0
    while at:
        at = text.find("{", at)
        try:
            _, at = decoder.raw_decode(text, at) if at >= 0 else (None, 0)
        except ValueError:
            break
        count += at > 0
    return count


@pytest.mark.slow
def test_a_file_cut_anywhere_gives_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    for cut in range(SMALL.index(b"[") + 1, len(SMALL)):
        path.write_bytes(SMALL[:cut])
        with pytest.warns(TraceReadWarning) as warned:
            trace = read_trace(path)
        events = complete_events(SMALL[:cut])
        (line,) = [str(warning.message) for warning in warned]
        assert line == f"{path} ends early after {events} events (byte {cut}); these were read"
        assert trace.info.anomalies["file ends early"] == 1
        assert len(trace) + len(trace.marks) == events - (events >= 2)  # the second names a thread


def test_a_file_cut_before_the_events_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    for cut in range(1, SMALL.index(b"[")):
        path.write_bytes(SMALL[:cut])
        with pytest.raises(TraceReadError, match=rf"ends early \(byte {cut}\), before the first"):
            read_trace(path)


@pytest.mark.slow
def test_gzip_cut_anywhere_never_crashes(tmp_path: Path) -> None:
    packed = gzip.compress(SMALL, mtime=0)
    path = tmp_path / "cut.json.gz"
    for cut in range(len(packed)):
        path.write_bytes(packed[:cut])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            try:
                trace = read_trace(path)
            except TraceReadError as error:
                assert "\n" not in str(error)
            else:
                assert "file ends early" in trace.info.anomalies


def test_damaged_gzip_gives_what_stands_before_the_damage(tmp_path: Path) -> None:
    text = trace_of(*[slice_of(ts=i, args={"random": hash(str(i))}) for i in range(10_000)])
    packed = bytearray(gzip.compress(text.encode()))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(packed)
    with pytest.warns(TraceReadWarning):
        trace = read_trace(path)
    assert len(trace) > 1000
    assert trace.info.anomalies["file ends early"] == 1


def finished(text: bytes, size: int) -> dict[str, Any]:
    reader = _native.ChromeReader()
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])
    return reader.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61, 64, 100])
def test_it_does_not_matter_where_chunks_end(size: int) -> None:
    padded = SMALL.replace(b", ", b" ,\n" + b" " * 70)
    for text in (SMALL, padded, b"\xef\xbb\xbf" + SMALL):
        whole, chunked = finished(text, len(text)), finished(text, size)
        assert chunked["strings"][0] == whole["strings"][0]
        assert chunked["tracks"] == whole["tracks"]
        assert chunked["metadata"] == whole["metadata"]
        assert chunked["anomalies"] == whole["anomalies"] == {}
        for key in ("start_ns", "duration_ns", "name", "track"):
            assert chunked["slices"][key].tolist() == whole["slices"][key].tolist()


texts = st.text(st.characters(), max_size=20)  # surrogates included
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(
    st.lists(st.tuples(texts, texts, texts, st.dictionaries(texts, values)), max_size=8),
    st.sampled_from([None, 1, 4]),
    st.booleans(),
)
def test_any_event_that_python_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str, dict[str, Any]]],
    indent: int | None,
    ascii_only: bool,
) -> None:
    events = [
        slice_of(name=name, cat=category, tid=tid, ts=i, args=args)
        for i, (name, category, tid, args) in enumerate(rows)
    ]
    text = json.dumps({"traceEvents": events}, indent=indent, ensure_ascii=ascii_only)
    path = tmp_path_factory.mktemp("any") / "trace.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    def seen(value: Any) -> Any:
        """What a reader that is careful with surrogates can see of a value."""
        if isinstance(value, str):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value

    trace = read_trace(path)
    if not ascii_only and any("\ud800" <= c <= "\udfff" for c in text):
        assert len(trace) == len(rows)
        return
    for row, (name, category, tid, args) in enumerate(rows):
        assert trace.name_of(row) == seen(name)
        assert trace.strings[int(trace.slices.category[row])] == seen(category)
        assert trace.tracks[int(trace.slices.track[row])].tid == seen(tid)
        arguments = trace.slices.args.of_row(row, trace.strings)
        assert {seen(key): arguments[key] for key in arguments} == {
            seen(key): args[key] for key in args
        }


def test_a_control_character_between_values_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(SMALL.replace(b'"c": {}', b'"c": {\x00}'))
    trace = read_trace(path)
    assert trace.slices.args.of_row(0, trace.strings) == {"a": 1, "b": [1.5, "x"], "c": {}}


@pytest.mark.slow
@settings(max_examples=300)
@given(st.binary(max_size=40), st.integers(0, len(SMALL)), st.integers(0, 20))
def test_nonsense_in_a_file_is_an_error_or_a_warning_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, drop: int
) -> None:
    path = tmp_path_factory.mktemp("noise") / "trace.json"
    path.write_bytes(SMALL[:at] + noise + SMALL[at + drop :])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceReadWarning)
        try:
            trace = read_trace(path)
        except TraceReadError:
            return
    for row in range(len(trace)):
        trace.slices.args.of_row(row, trace.strings)
        trace.slices.fields.of_row(row, trace.strings)
