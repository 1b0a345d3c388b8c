"""Damages a saved trace, as somebody does who knows its tables: one mutation a call."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import polars as pl

from fuzzing.values import any_value, damaged_bytes, damaged_json, hostile_text

if TYPE_CHECKING:
    import random
    from pathlib import Path

TABLES = (
    *("slices", "slices", "slices", "marks", "stacks", "memory", "owners", "samples", "held"),
    *("tracks", "integers"),
)
_EDGES = (0, 1, -1, 2, 7, 127, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63))
# The length before a frame of zstd.
_LENGTH = re.compile(rb"[\0-\xff]{3}\0{5}\x28\xb5\x2f\xfd")
_TYPES = (pl.Int8, pl.Int32, pl.UInt32, pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.UInt8)


def mutate(folder: Path, rng: random.Random) -> str:
    """Damage the trace in ``folder``; return in words what was done."""
    if rng.random() < 0.25:
        return _mutate_meta(folder / "meta.json", rng)
    name = rng.choice(TABLES)
    file = folder / f"{name}.arrow"
    if rng.random() < 0.12:
        return f"{name}: {_mutate_file(file, rng)}"
    frame = pl.read_ipc(file.read_bytes())
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        frame, what = _mutate_frame(frame, rng)
        done.append(what)
    frame.write_ipc(file, compression=rng.choice(("zstd", "zstd", "uncompressed", "lz4")))
    if rng.random() < 0.9:  # else the number of rows is another, and the checksum
        _set_rows(folder / "meta.json", name, frame.height, zlib.crc32(file.read_bytes()))
    return f"{name}: {', '.join(done)}"


def _set_rows(meta: Path, name: str, rows: int, rows_before: int) -> None:
    parsed = json.loads(meta.read_text())
    parsed["rows"][name] = rows
    parsed["checksums"][name] = rows_before
    meta.write_text(json.dumps(parsed))


def _mutate_meta(file: Path, rng: random.Random) -> str:
    if rng.random() < 0.2:
        return f"meta: {_mutate_file(file, rng)}"
    text, what = damaged_json(file.read_text(), rng)
    file.write_bytes(text)
    return f"meta: {what}"


def _mutate_file(file: Path, rng: random.Random) -> str:
    what = rng.choice(
        ("bytes", "bytes", "length", "cut", "gone", "empty", "pipe", "folder", "link")
    )
    data = file.read_bytes()
    file.unlink()
    match what:
        case "bytes":
            file.write_bytes(damaged_bytes(data, rng))
        case "length":
            file.write_bytes(_other_length(data, rng))
        case "cut":
            file.write_bytes(data[: rng.randrange(len(data))])
        case "empty":
            file.write_bytes(b"")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(rng.choice(("/dev/zero", "/dev/null", file.name, "/nowhere")))
    return what


def _other_length(data: bytes, rng: random.Random) -> bytes:
    """Change what one of the compressed buffers says that it unpacks to, or what looks so."""
    places = [match.start() for match in _LENGTH.finditer(data)]
    if not places:
        return damaged_bytes(data, rng)
    at = rng.choice(places)
    length = rng.choice(_EDGES).to_bytes(8, "little", signed=True)
    return data[:at] + length + data[at + 8 :]


def _mutate_frame(frame: pl.DataFrame, rng: random.Random) -> tuple[pl.DataFrame, str]:
    kind = rng.choice(
        ("set", "set", "set", "set", "text", "text", "rows", "type", "null", "column")
    )
    if not frame.width:
        return frame, "nothing"
    column = rng.choice(frame.columns)
    if kind == "rows" or not frame.height:
        return _other_rows(frame, rng)
    if kind == "column":
        return _other_columns(frame, column, rng)
    series = frame[column]
    if kind == "type":
        dtype = rng.choice(_TYPES)
        try:
            return frame.with_columns(series.cast(dtype, strict=False)), f"{column} as {dtype}"
        except pl.exceptions.PolarsError:
            return frame, "nothing"
    row = rng.randrange(frame.height)
    values: list[Any] = series.to_list()
    if kind == "null":
        values[row] = None
    elif series.dtype.is_integer():
        values[row] = _number(series, row, frame.height, rng)
    else:
        values[row] = hostile_text(rng) if kind == "text" else rng.choice(values)
    try:
        return frame.with_columns(
            pl.Series(column, values, dtype=series.dtype)
        ), f"{column}[{row}] = {values[row]!r:.60}"
    except (pl.exceptions.PolarsError, OverflowError, TypeError, UnicodeEncodeError):
        return frame, "nothing"


def _number(series: pl.Series, row: int, rows: int, rng: random.Random) -> int:
    near = int(series[row] or 0) + rng.choice((-1, 1, 1000, -1000, 10**9))
    other = int(series[rng.randrange(len(series))] or 0)
    return rng.choice((*_EDGES, row, row + 1, rows, rows - 1, near, other, other))


def _other_rows(frame: pl.DataFrame, rng: random.Random) -> tuple[pl.DataFrame, str]:
    seed = rng.randrange(1000)
    match rng.randrange(6):
        case 0:
            return frame.head(rng.randrange(frame.height + 1)), "fewer rows"
        case 1:
            return frame.clear(), "no rows"
        case 2:
            return pl.concat([frame, frame]), "rows twice"
        case 3:
            return frame.reverse(), "rows reversed"
        case 4:
            return frame.sample(fraction=1, shuffle=True, seed=seed), "rows shuffled"
        case _:
            column = rng.choice(frame.columns)
            mixed = frame[column].sample(fraction=1, shuffle=True, seed=seed)
            return frame.with_columns(mixed.alias(column)), f"{column} shuffled"


def _other_columns(
    frame: pl.DataFrame, column: str, rng: random.Random
) -> tuple[pl.DataFrame, str]:
    match rng.randrange(4):
        case 0:
            return frame.drop(column), f"without {column}"
        case 1:
            return frame.rename({column: f"{column}2"}), f"{column} renamed"
        case 2:
            other = rng.choice(frame.columns)
            return frame.with_columns(frame[other].alias(column)), f"{column} is {other}"
        case _:
            value = any_value(rng, depth=0)  # Polars itself aborts on deep lists
            try:
                return frame.with_columns(
                    pl.lit(value).alias(column)
                ), f"{column} is all {value!r:.40}"
            except (pl.exceptions.PolarsError, OverflowError, TypeError, UnicodeEncodeError):
                return frame.select(reversed(frame.columns)), "columns reversed"


def copy(whole: Path, place: Path) -> Path:
    """Return a copy of a saved trace in a place where one may have been."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, place)
    return place
