"""An Arrow file is checked before Polars reads it: no length or type in it can end the process."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fuzzing.values import damaged_bytes
from made_trace import Call, trace_of_calls
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.trace.arrow_file import ArrowFileError, ArrowSize, checked_size
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = re.compile(rb"[\0-\xff]{3}\0{5}\x28\xb5\x2f\xfd")  # before a frame of zstd
_COMPRESSIONS: tuple[Any, ...] = ("uncompressed", "lz4", "zstd")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.stepscope"
    trace_of_calls([Call(f"call {i}", 10 * i, 10 * i + 9) for i in range(1000)]).save(path)
    return path


def damage_length(path: Path, length: int) -> None:
    """Change what the first buffer of the slices unpacks to."""
    file = path / "slices.arrow"
    data = file.read_bytes()
    at = next(match.start() for match in _LENGTH.finditer(data))
    file.write_bytes(data[:at] + length.to_bytes(8, "little") + data[at + 8 :])


def written(
    frame: pl.DataFrame, compression: Any = "uncompressed", *, oldest: bool = True
) -> bytes:
    file = io.BytesIO()
    level = pl.CompatLevel.oldest() if oldest else pl.CompatLevel.newest()
    frame.write_ipc(file, compression=compression, compat_level=level)
    return file.getvalue()


def frame_of(rows: int) -> pl.DataFrame:
    texts = [f"text number {i}" if i % 3 else None for i in range(rows)]
    return pl.DataFrame(
        {
            "number": pl.Series(range(rows), dtype=pl.UInt32),
            "time": pl.Series([-i for i in range(rows)], dtype=pl.Int64),
            "word": pl.Series(texts, dtype=pl.Categorical),
            "text": pl.Series(texts, dtype=pl.String),
            "flag": pl.Series([i % 2 == 0 for i in range(rows)], dtype=pl.Boolean),
            "share": pl.Series([i / 7 for i in range(rows)], dtype=pl.Float64),
        }
    )


@pytest.mark.parametrize("compression", _COMPRESSIONS)
@pytest.mark.parametrize("oldest", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_what_polars_writes_is_accepted(compression: Any, oldest: bool, rows: int) -> None:
    frame = frame_of(rows)
    size = checked_size(written(frame, compression, oldest=oldest))
    assert size.rows == rows
    assert size.bytes >= rows * (4 + 8 + 4 + 8)
    chunks = pl.concat([frame, frame], rechunk=False)
    assert checked_size(written(chunks, compression, oldest=oldest)).rows == 2 * rows


def test_what_pyarrow_writes_is_accepted() -> None:
    pa = pytest.importorskip("pyarrow")
    texts = pa.array(["a", None, "c"])
    table = pa.table({"number": [1, 2, 3], "text": texts, "word": texts.dictionary_encode()})
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert checked_size(file.getvalue()).rows == 3


def test_types_that_no_table_has_are_refused() -> None:
    for values in ([[1, 2]], [{"a": 1}]):
        with pytest.raises(ArrowFileError, match="columns within it"):
            checked_size(written(pl.DataFrame({"x": values})))


def test_a_type_of_an_extension_is_refused() -> None:
    """That of Polars for Python's objects is an address in the memory of its writer."""
    pa = pytest.importorskip("pyarrow")
    about = {"ARROW:extension:name": "POLARS_EXTENSION_TYPE", "ARROW:extension:metadata": "1;2"}
    schema = pa.schema([pa.field("x", pa.int64(), metadata=about)])
    file = io.BytesIO()
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_table(pa.table({"x": [1]}, schema=schema))
    with pytest.raises(ArrowFileError, match="extension"):
        checked_size(file.getvalue())


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"ARROW1\0\0" + bytes(4) + b"ARROW1", bytes(99)])
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    with pytest.raises(ArrowFileError):
        checked_size(data)


@pytest.mark.parametrize("compression", _COMPRESSIONS)
def test_damaged_files_are_read_or_refused_and_end_nothing(compression: Any) -> None:
    rng = random.Random(f"arrow {compression}")
    whole = written(frame_of(20), compression)
    metadata = whole.index(b"ARROW1", 8) - 700
    accepted = refused = 0
    for _ in range(400):
        data = bytearray(whole)
        if rng.random() < 0.5:
            data = bytearray(damaged_bytes(whole, rng))
        else:  # a number of the footer or of a message
            at = 4 * rng.randrange(2, metadata // 4)
            number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 8, 64, 2**30))
            struct.pack_into("<I", data, at, number)
        try:
            size = checked_size(bytes(data))
            frame = pl.read_ipc(bytes(data))
        except (ArrowFileError, pl.exceptions.PolarsError, OSError):
            refused += 1
            continue
        accepted += 1
        assert frame.height == size.rows
        assert frame.estimated_size() <= 4 * size.bytes + 10_000
        frame.rows()
    assert accepted > 10
    assert refused > 10


def test_what_another_tool_wrote_is_read_with_a_warning(saved: Path) -> None:
    file = saved / "slices.arrow"
    pl.read_ipc(file.read_bytes()).write_ipc(file, compression="lz4")
    with pytest.warns(TraceReadWarning, match="slices.arrow was changed since it was saved"):
        assert len(Trace.load(saved).slices) == 1000


def test_a_trace_without_checksums_is_read(saved: Path) -> None:
    """Those of an earlier Stepscope have none."""
    meta = json.loads((saved / "meta.json").read_text())
    del meta["checksums"]
    (saved / "meta.json").write_text(json.dumps(meta))
    assert len(Trace.load(saved).slices) == 1000


def test_more_than_there_is_memory_for_is_refused(saved: Path) -> None:
    data = (saved / "slices.arrow").read_bytes()
    assert checked_size(data) == ArrowSize(1000, checked_size(data).bytes)
    for length in (1 << 40, 1 << 50, (1 << 63) - 1):
        damage_length(saved, length)
        with pytest.raises(TraceReadError, match=r"slices.arrow"):
            Trace.load(saved)


@pytest.mark.parametrize("length", [5, 1 << 40, (1 << 63) - 1])
def test_a_wrong_length_is_told_in_one_line(saved: Path, length: int) -> None:
    damage_length(saved, length)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "summary", saved],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith("is incomplete: slices.arrow is truncated or damaged\n")
    assert done.stderr.count("\n") == 1
