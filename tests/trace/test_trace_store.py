from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from sample_traces import HOSTILE, SAMPLES, assert_same, recording, sample_name
from stepscope.errors import StepscopeError, TraceReadError
from stepscope.formats import read_trace
from stepscope.trace.frames import slices_frame
from stepscope.trace.model import (
    Args,
    IntColumn,
    Losses,
    Marks,
    SliceFlags,
    Trace,
    Track,
)
from stepscope.trace.model import save_trace as save
from stepscope.trace.store import is_stored_trace
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from pathlib import Path


def full_trace() -> Trace:
    """Return a trace with something in every column, and the same text under two string ids."""
    texts = ["", "cpu_op", *HOSTILE, "a\ud800b", "again", "again", '"bp": "e"']
    count = len(texts) - 2
    trace = recording(texts[2:])
    numbers = IntColumn(np.array([0, 2], np.uint32), np.array([-(2**63), 2**63 - 1]))
    rest = np.array([len(texts) - 1, *[0] * (count - 1)], np.uint32)
    slices = replace(
        trace.slices,
        kind=np.arange(count, dtype=np.uint8) % 11,
        flags=np.arange(count, dtype=np.uint8) % 8,
        overload=np.arange(count, dtype=np.uint32) % 3,
        step=np.arange(count, dtype=np.int32) - 1,
        sequence=np.arange(count) - 1,
        forward_thread=np.arange(count) - 1,
        correlation=np.arange(count) * 1_000_003 - 1,
        args=Args({"External id": numbers, HOSTILE[0]: numbers}, rest),
        fields=Args({"id": numbers}, rest[::-1].copy()),
    )
    marks = Marks(
        phase=np.frombuffer(b"siC\x00\xff", np.uint8),
        category=np.array([1, 1, 0, 0, 0], np.uint32),
        name=np.arange(1, 6, dtype=np.uint32),
        time_ns=np.array([5, 4, 3, -2, 2**62]),
        track=np.array([0, 1, 0, 1, 0], np.uint32),
        args=Args({"value": numbers}),
        fields=Args({}, rest[:5].copy()),
    )
    info = replace(
        trace.info,
        wall_offset_ns=1_700_000_000_123_456_789,
        host=HOSTILE[0],
        rank=1,
        versions={"torch": "2.13"},
        losses=Losses(3, "oldest", 1 << 30),
        overhead_ns=0.1,
        anomalies={"overlapping slices": 2},
        user={text: [text, 1.5, None] for text in HOSTILE},
    )
    tracks = (trace.tracks[0], Track("Spans", "", HOSTILE[2], HOSTILE[3]))
    return Trace(slices, tracks, Strings.of(texts), info=info, marks=marks)


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    trace = full_trace()
    trace.save(tmp_path / "t.stepscope")
    assert_same(Trace.load(str(tmp_path / "t.stepscope")), trace)


def test_an_empty_trace_comes_back(tmp_path: Path) -> None:
    trace = replace(recording([]), tracks=(), strings=Strings.of([""]))
    save(trace, tmp_path / "t.stepscope")
    assert_same(Trace.load(tmp_path / "t.stepscope"), trace)


def test_loading_merges_texts_that_stood_twice(tmp_path: Path) -> None:
    trace = recording(["again", "again"])
    save(trace, tmp_path / "t.stepscope")
    assert sorted(Trace.load(tmp_path / "t.stepscope").strings) == ["", "again", "cpu_op"]


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
def test_real_traces_come_back(tmp_path: Path, path: Path) -> None:
    trace = read_trace(path)
    save(trace, tmp_path / "t.stepscope")
    assert_same(Trace.load(tmp_path / "t.stepscope"), trace)


def test_other_tools_read_the_files_as_they_are(tmp_path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    trace = full_trace()
    save(trace, tmp_path / "t.stepscope")
    slices = feather.read_table(tmp_path / "t.stepscope" / "slices.arrow")
    assert slices["name"].to_pylist() == list(trace.names())
    assert slices["start_ns"].to_pylist() == trace.slices.start_ns.tolist()
    assert slices["kind"].to_pylist()[:3] == ["other", "operator", "range"]
    assert slices["args"].to_pylist()[0] == '"bp": "e"'


def test_integer_arguments_are_a_cumulative_sum_away(tmp_path: Path) -> None:
    save(full_trace(), tmp_path / "t.stepscope")
    steps = pl.read_ipc((tmp_path / "t.stepscope" / "integers.arrow").read_bytes())
    ids = steps.filter(table="slices.args", key="External id")
    assert ids["row_step"].cum_sum().to_list() == [0, 2]
    assert ids["value_step"].cum_sum().to_list() == [-(2**63), 2**63 - 1]


def test_a_saved_trace_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.stepscope"
    save(recording(["old"]), path)
    with pytest.raises(StepscopeError, match="overwrite=True"):
        save(recording(["new"]), path)
    assert Trace.load(path).name_of(0) == "old"
    save(recording(["new"]), path, overwrite=True)
    assert Trace.load(path).name_of(0) == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_not_a_trace_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("folder", "file"):
        with pytest.raises(StepscopeError, match="not a saved trace; choose another name"):
            save(recording(), tmp_path / name, overwrite=True)
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "precious"
    with pytest.raises(StepscopeError, match="nowhere does not exist; create it"):
        save(recording(), tmp_path / "nowhere" / "t.stepscope")


def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(recording(), tmp_path / "t.stepscope", fail)
    assert not list(tmp_path.iterdir())


def test_saving_reports_its_progress(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    save(full_trace(), tmp_path / "t.stepscope", lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > 0


def refusal(path: Path) -> str:
    with pytest.raises(TraceReadError) as raised:
        Trace.load(path)
    text = str(raised.value)
    assert path.name in text
    assert "\n" not in text
    return text


def test_what_cannot_be_loaded_is_refused_in_one_line(tmp_path: Path) -> None:
    saved = tmp_path / "t.stepscope"
    save(full_trace(), saved)
    assert "does not exist" in refusal(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    assert "not a saved trace" in refusal(tmp_path / "empty")
    (tmp_path / "file").write_text("{}")
    assert "not a saved trace" in refusal(tmp_path / "file")
    assert not is_stored_trace(tmp_path / "file")
    assert is_stored_trace(saved)

    (saved / "marks.arrow").rename(saved / "elsewhere")
    assert "marks.arrow is missing" in refusal(saved)
    shutil.copy(saved / "slices.arrow", saved / "marks.arrow")
    assert "marks.arrow has" in refusal(saved)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("version", 99, "has format version 99, but this Stepscope reads version 1"),
        ("format", "a song", "is not a saved trace: meta.json says 'a song'"),
        ("info", {"producer": "x"}, "damaged"),
        ("rows", {}, "damaged"),
    ],
)
def test_a_strange_meta_file_is_refused(
    tmp_path: Path, key: str, value: object, reason: str
) -> None:
    saved = tmp_path / "t.stepscope"
    save(recording(), saved)
    meta = json.loads((saved / "meta.json").read_text())
    (saved / "meta.json").write_text(json.dumps({**meta, key: value}))
    assert reason in refusal(saved)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    saved = tmp_path / "t.stepscope"
    save(full_trace(), saved)
    file = saved / "slices.arrow"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    assert "slices.arrow is truncated or damaged" in refusal(saved)


def test_the_frame_spells_everything_out() -> None:
    trace = recording(["ProfilerStep#7", "aten::mm"])
    ids = IntColumn(np.array([1], np.uint32), np.array([42]))
    flags = np.array([0, SliceFlags.BACKWARD], np.uint8)
    slices = replace(trace.slices, args=Args({"stream": ids}), flags=flags)
    frame = slices_frame(replace(trace, slices=slices), args=["stream", "nothing"])
    common = {"category": "cpu_op", "overload": "", "process": "python", "thread": "main"}
    nothing = dict.fromkeys(["sequence", "forward_thread", "correlation", "nothing"])
    where = {
        "pid": "12",
        "tid": "34",
        "step": 7,
        "unfinished": False,
        "async": False,
        **common,
        **nothing,
    }
    outer = {"name": "ProfilerStep#7", "kind": "step", "start_ns": 1_000_000, "stream": None}
    inner = {"name": "aten::mm", "kind": "operator", "start_ns": 1_001_500, "stream": 42}
    times = [
        {"duration_ns": 1_000_000, "self_ns": 3_001, "parent": None, "depth": 0},
        {"duration_ns": 996_999, "self_ns": 996_999, "parent": 0, "depth": 1},
    ]
    assert frame.to_dicts() == [
        {**where, **outer, **times[0], "backward": False},
        {**where, **inner, **times[1], "backward": True},
    ]


def test_the_frame_of_an_empty_trace_has_the_same_columns() -> None:
    empty = slices_frame(recording([]))
    assert empty.height == 0
    assert empty.schema == slices_frame(recording()).schema


def test_pandas_gets_the_same_rows() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = recording(["a", "b"]).to_pandas()
    assert frame["name"].tolist() == ["a", "b"]
    assert str(frame["name"].dtype) == "category"
