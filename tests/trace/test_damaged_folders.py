"""A saved trace that was damaged is refused where it is opened: which file, column and row."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from made_trace import Bytes, Call, Sample, trace_of_calls
from stepscope.analysis.host.modules import module_table
from stepscope.errors import TraceReadError
from stepscope.formats import export_trace
from stepscope.trace import regular_file, store
from stepscope.trace.model import Trace
from stepscope.trace.shorten import with_short_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    calls = [
        Call("outer", 0, 100, stack=("b.py(2): g", "a.py(1): f"), external_id=3),
        Call("inner", 10, 20, rest='"Input Dims": [[2, 3]]', external_id=4),
        Call("other", 30, 40, track=1, external_id=5),
    ]
    samples = [Sample(0, 5, ("b.py(2): g",)), Sample(5, 9)]
    path = tmp_path_factory.mktemp("whole") / "whole.stepscope"
    trace_of_calls(calls, [Bytes(11, 64), Bytes(12, -64)], samples).save(path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(TraceReadError) as raised:
        Trace.load(path)
    text = str(raised.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


def changed(whole: Path, tmp_path: Path, table: str, change: Change) -> Path:
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    file = copy / f"{table}.arrow"
    change(pl.read_ipc(file.read_bytes())).write_ipc(file, compression="zstd")
    return copy


def put(column: str, row: int, value: Any) -> Change:
    return lambda frame: frame.with_columns(frame[column].scatter(row, value))


def cast(column: str, dtype: Any) -> Change:
    return lambda frame: frame.with_columns(pl.col(column).cast(dtype))


def null(column: str, row: int) -> Change:
    def change(frame: pl.DataFrame) -> pl.DataFrame:
        is_row = pl.int_range(pl.len()) == row
        return frame.with_columns(
            pl.when(is_row).then(None).otherwise(pl.col(column)).alias(column)
        )

    return change


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("slices", put("parent", 1, 1), "column 'parent', row 1: 1 is not an earlier row"),
        ("slices", put("parent", 0, 2), "column 'parent', row 0: 2 is not an earlier row"),
        ("slices", put("parent", 2, -2), "column 'parent', row 2: -2 is not an earlier row"),
        ("slices", put("track", 2, 2**32 - 1), "column 'track', row 2: 4294967295 is not one of 4"),
        ("slices", put("stack", 1, 99), "column 'stack', row 1: 99 is not one of 4 stacks"),
        ("slices", put("depth", 1, 0), "column 'depth', row 1"),
        ("slices", put("depth", 2, 2**31 - 1), "column 'depth', row 2"),
        ("slices", put("start_ns", 1, 10**9), "column 'start_ns', row 2"),
        ("slices", put("start_ns", 2, 2**63 - 1), "column 'start_ns', row 2"),
        ("slices", put("duration_ns", 1, -1), "column 'duration_ns', row 1: -1 is less than 0"),
        ("slices", put("duration_ns", 1, 2**63 - 1), "column 'duration_ns', row 1: it ends"),
        ("slices", put("self_ns", 1, 10**9), "column 'self_ns', row 1"),
        ("slices", put("step", 1, -7), "column 'step', row 1: -7 is less than -1"),
        ("slices", null("name", 2), "column 'name', row 2: it has no value"),
        ("slices", null("duration_ns", 1), "column 'duration_ns', row 1: it has no value"),
        ("slices", cast("track", pl.Float64), "column 'track': it has the type Float64"),
        ("slices", cast("parent", pl.Int64), "column 'parent': it has the type Int64, not int32"),
        ("slices", cast("step", pl.Int128), "column 'step': it has the type Int128"),
        ("slices", cast("start_ns", pl.String), "column 'start_ns': it has the type String"),
        ("slices", cast("kind", pl.String), ""),
        ("slices", lambda f: f.with_columns(name=f["track"]), "column 'name': it has the type"),
        ("slices", lambda f: f.with_columns(kind=f["name"]), "column 'kind', row 0: 'outer' is no"),
        ("slices", put("args", 1, '"Input Dims": ['), "column 'args', row 1: '\"Input Dims"),
        ("slices", lambda f: f.drop("start_ns"), "column 'start_ns': it is missing"),
        ("slices", lambda f: f.drop("name"), "column 'name': it is missing"),
        ("slices", lambda f: f.head(2), "slices.arrow has 2 rows, not 3"),
        ("stacks", put("parent", 1, 1), "stacks.arrow, column 'parent', row 1: 1 is not"),
        ("stacks", put("parent", 0, 1), "stacks.arrow, column 'parent', row 0"),
        ("memory", put("track", 1, 4), "memory.arrow, column 'track', row 1: 4 is not one of 4"),
        ("memory", put("slice", 1, 3), "memory.arrow, column 'slice', row 1: 3 is not one of 3"),
        ("memory", put("slice", 0, -2), "memory.arrow, column 'slice', row 0"),
        ("memory", put("time_ns", 1, 0), "memory.arrow, column 'time_ns', row 1: 0 is less than"),
        ("samples", cast("state", pl.Categorical), ""),
        ("samples", put("stack", 1, 9), "samples.arrow, column 'stack', row 1"),
        ("tracks", null("pid", 1), "tracks.arrow, column 'pid', row 1: it has no value"),
        ("tracks", cast("thread_sort", pl.String), "tracks.arrow, column 'thread_sort': it has"),
        ("tracks", lambda f: f.drop("tid"), "tracks.arrow, column 'tid': it is missing"),
        ("tracks", lambda f: f.with_columns(new=1), ""),
        ("integers", put("row_step", 1, 0), "integers.arrow, column 'row_step': entry 1"),
        ("integers", put("row_step", 2, 9), "entry 2 of 'External id' in slices.args is for row"),
        ("integers", cast("row_step", pl.Int64), "integers.arrow, column 'row_step': it has"),
        ("integers", null("key", 1), "integers.arrow, column 'key', row 1"),
    ],
)  # fmt: skip
def test_damage_is_named_by_column_and_row(
    whole: Path, tmp_path: Path, table: str, change: Change, reason: str
) -> None:
    copy = changed(whole, tmp_path, table, change)
    if not reason:  # another way to write the same
        assert len(Trace.load(copy)) == 3
        return
    assert reason in refusal(copy)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["rows"], [], "'rows' has no numbers of rows"),
        (["rows", "slices"], "3", "'rows' has no numbers of rows"),
        (["info"], None, "'info' is null, not an object"),
        (["info"], [1], "'info' is a list, not an object"),
        (["info", "producer"], 5, "'producer' is the number 5, not a text"),
        (["info", "start_ns"], 1e308, "'start_ns' is the number 1e+308, not a time in ns"),
        (["info", "start_ns"], 10**40, "'start_ns' is the number 1000"),
        (["info", "versions"], {"torch": {}}, "'versions' is an object, not an object with texts"),
        (["info", "devices"], {"name": "x"}, "'devices' is an object, not a list of objects"),
        (["info", "losses"], {"events": "many"}, "'events' of 'losses' is a text"),
        (["info", "losses"], None, "'losses' is null"),
        (["info", "overhead_ns"], float("nan"), "'overhead_ns' is the number nan"),
        (["info", "anomalies"], {"a": 1.5}, "'anomalies' is an object"),
        (["version"], {"a": 1}, "has format version {'a': 1}"),
    ],
)
def test_a_meta_file_of_another_shape_is_named(
    whole: Path, tmp_path: Path, path: list[str], value: Any, reason: str
) -> None:
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    meta = json.loads((copy / "meta.json").read_text())
    inner = meta
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (copy / "meta.json").write_text(json.dumps(meta))
    assert reason in refusal(copy)


def test_half_a_character_in_the_info_is_replaced(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    meta = json.loads((copy / "meta.json").read_text())
    meta["info"]["host"] = "a\ud800b"
    (copy / "meta.json").write_text(json.dumps(meta))
    assert Trace.load(copy).info.host == "a\ufffdb"


@pytest.mark.parametrize(
    "text", [b"", b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b"9" * 5000, b'{"format": [}']
)
def test_a_meta_file_that_is_no_json_is_refused(whole: Path, tmp_path: Path, text: bytes) -> None:
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    (copy / "meta.json").write_bytes(text)
    assert "is not a saved trace: no readable meta.json in it" in refusal(copy)


@pytest.mark.parametrize("file", ["meta.json", "slices.arrow"])
def test_pipes_devices_and_folders_are_not_read(whole: Path, tmp_path: Path, file: str) -> None:
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    (copy / file).unlink()
    os.mkfifo(copy / file)
    assert "it is a named pipe, not a regular file" in refusal(copy)
    (copy / file).unlink()
    (copy / file).symlink_to("/dev/zero")
    assert "it is a link, which is not followed" in refusal(copy)
    (copy / file).unlink()
    (copy / file).mkdir()
    assert "it is a folder, not a regular file" in refusal(copy)


def test_what_would_not_fit_into_memory_is_refused(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_META_LIMIT_BYTES", 1 << 20)
    copy = tmp_path / "copy.stepscope"
    shutil.copytree(whole, copy)
    with (copy / "meta.json").open("ab") as file:
        file.truncate(2 << 20)
    assert "meta.json cannot be read: it is larger than 1.00 MiB, the limit" in refusal(copy)

    monkeypatch.setattr(regular_file, "_limits", lambda: iter([50_000]))
    many = pl.DataFrame({"time_ns": pl.repeat(0, 1 << 20, dtype=pl.Int64, eager=True)})
    shutil.copy(whole / "meta.json", copy)
    meta = json.loads((copy / "meta.json").read_text())
    meta["rows"]["owners"] = 1 << 20
    (copy / "meta.json").write_text(json.dumps(meta))
    many.write_ipc(copy / "owners.arrow", compression="zstd")
    assert "of memory for owners.arrow, but 48.8 KiB are free" in refusal(copy)


def test_a_device_of_another_name_and_huge_blocks_are_used(tmp_path: Path) -> None:
    """Seen in damaged folders: names with a colon, and sums of bytes beyond 64 bits."""
    most = 2**63 - 1
    memory = [Bytes(11, most, "aten::mm"), Bytes(31, most, "cuda:1"), Bytes(32, -9, 'cuda: "x"')]
    calls = [Call("layer", 0, 20, category="module"), Call("aten::mm", 10, 20), Call("b", 30, 40)]
    trace = trace_of_calls(calls, memory)
    trace = replace(trace, info=replace(trace.info, producer="stepscope"))
    trace.save(tmp_path / "t.stepscope")
    trace = Trace.load(tmp_path / "t.stepscope")
    export_trace(trace, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    devices = [item["args"]["Device Id"] for item in events if item["name"] == "[memory]"]
    assert devices == [-1, 1, -1]
    assert len(module_table(trace)) == 2


def test_what_would_not_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = f'"a": "{"y" * 3000}"'
    trace = trace_of_calls([Call("x" * 2000, 0, 5, rest=rest), Call("short", 1, 2)])
    cut = with_short_texts(trace, 1000)
    texts = list(cut.strings)
    assert texts[int(cut.slices.name[0])].endswith("... (2,000 bytes)")
    assert texts[int(cut.slices.name[1])] == "short"
    assert texts[int(cut.slices.args.rest[0])].startswith('"left out": "3,0')
    assert with_short_texts(trace) is trace

    monkeypatch.setattr(store, "_META_LIMIT_BYTES", 5000)
    user = {"small": [1], "large": "z" * 9000}
    trace = trace_of_calls([Call("a", 0, 5)], user=user)
    trace.save(tmp_path / "t.stepscope")
    info = Trace.load(tmp_path / "t.stepscope").info
    assert info.user == {"small": [1]}
    assert info.anomalies == {"large metadata left out": 1}
