"""How much memory an Arrow file asks for is known before it is taken."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from made_trace import Call, trace_of_calls
from stepscope.errors import TraceReadError
from stepscope.trace.arrow_file import unpacked_bytes
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 10_000
_LENGTH = re.compile(rb"[\0-\xff]{3}\0{5}\x28\xb5\x2f\xfd")  # before a frame of zstd


def written(frame: pl.DataFrame, compression: str = "zstd", batch: int = ROWS) -> bytes:
    file = io.BytesIO()
    frame.write_ipc(file, compression=compression, record_batch_size=batch)  # type: ignore[arg-type]
    return file.getvalue()


NUMBERS = pl.DataFrame(
    {"a": pl.int_range(ROWS, eager=True), "b": pl.Series([0] * ROWS, dtype=pl.UInt32)}
)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("batch", [ROWS, 1000])
def test_numbers_take_their_widths(compression: str, batch: int) -> None:
    assert unpacked_bytes(written(NUMBERS, compression, batch)) == ROWS * (8 + 4)


def test_what_is_not_compressed_is_not_counted() -> None:
    assert unpacked_bytes(written(NUMBERS, "uncompressed")) == 0
    assert unpacked_bytes(written(NUMBERS.clear())) == 0


def test_texts_and_categories_are_counted() -> None:
    texts = pl.DataFrame({"text": [f"a longer text, number {i}" for i in range(ROWS)]})
    least = sum(len(text) for text in texts["text"])
    assert least <= unpacked_bytes(written(texts)) <= least + 17 * ROWS
    categories = texts.select(pl.col("text").cast(pl.Categorical))
    assert unpacked_bytes(written(categories)) >= least + 4 * ROWS


def test_each_damaged_byte_is_an_error_of_ours_or_a_number() -> None:
    data = written(NUMBERS.head(50))
    for at in range(len(data)):
        for byte in (0, 0x7F, 0xFF):
            damaged = data[:at] + bytes([byte]) + data[at + 1 :]
            with contextlib.suppress(ValueError):
                unpacked_bytes(damaged)
    for end in range(len(data)):
        with pytest.raises(ValueError, match="not an Arrow file"):
            unpacked_bytes(data[:end])


def damaged(tmp_path: Path, length: int) -> Path:
    path = tmp_path / "run.stepscope"
    trace_of_calls([Call(f"call {i}", 10 * i, 10 * i + 9) for i in range(1000)]).save(path)
    file = path / "slices.arrow"
    data = file.read_bytes()
    at = next(match.start() for match in _LENGTH.finditer(data))
    file.write_bytes(data[:at] + length.to_bytes(8, "little") + data[at + 8 :])
    return path


def test_a_length_that_this_machine_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceReadError, match=r"needs about .* GB of memory for slices.arrow"):
        Trace.load(damaged(tmp_path, 1 << 43))


def test_a_length_that_no_machine_has_is_one_line(tmp_path: Path) -> None:
    path = damaged(tmp_path, 1 << 50)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "summary", path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith("is not whole: slices.arrow is truncated or damaged\n")
    assert done.stderr.count("\n") == 1
