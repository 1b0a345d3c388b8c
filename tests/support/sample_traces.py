"""Small traces to test with, texts that break things, and the recordings of tests/samples."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import Args, Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

SAMPLES_FOLDER = Path(__file__).parents[1] / "samples"
H200 = ("h200_training", "h200_language_model", "h200_streams")
PADDLE_SAMPLES = SAMPLES_FOLDER / "paddle"
EIGHT_RANKS = SAMPLES_FOLDER / "eight_ranks"
SAMPLES = sorted({*SAMPLES_FOLDER.glob("*.json.gz"), *EIGHT_RANKS.glob("*.json.gz")})
# Stepscope's own exports become recordings again, without what only completes the file.
OF_OTHERS = [path for path in SAMPLES if path.name.partition(".")[0] != "cpu_stepscope"]
# The ranks of one job are alike: the first stands for all.
ONE_RANK = [path for path in SAMPLES if path.parent != EIGHT_RANKS or path.name.startswith("rank0")]
HOSTILE = [
    'quote " backslash \\ slash /',
    "</script><script>alert(1)</script>",
    "line\nfeed\r\ttab \x00\x01\x1f\x7f",
    "ünï çödé 漢字 🙂 \u2028\u2029\ufeff",
    "long " * 2_000,
]


def sample_name(path: Path) -> str:
    return path.name.partition(".")[0]


def sample_path(name: str) -> Path:
    (path,) = [path for path in SAMPLES if sample_name(path) == name]
    return path


def json_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a sample as its JSON has them, numbers exact."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def recording(names: list[str] | None = None, args: Args | None = None, **info: Any) -> Trace:
    """Return slices one inside the other, 1,500 ns apart."""
    names = ["outer", "inner"] if names is None else names
    strings = Strings.of(["", "cpu_op", *names])
    rows = np.arange(len(names))
    raw = Slices.of(
        category=np.full(len(names), 1, np.uint32),
        name=(rows + 2).astype(np.uint32),
        start_ns=1_000_000 + 1_500 * rows,
        duration_ns=1_000_000 - 3_001 * rows,
        track=np.zeros(len(names), np.uint32),
        args=args or Args(),
    )
    track = Track("12", "34", "python", "main", "CPU", 12, 34, logical_id=1)
    result = TraceInfo(**{"producer": "stepscope", **info})
    return build(Captured(raw, (track,), strings), result)


def assert_same(one: Trace, other: Trace) -> None:
    """Compare every column of every table; texts and tracks may be numbered differently."""
    assert _essentials(one) == _essentials(other)
    assert set(one.tracks) == set(other.tracks)
    assert one.info == other.info


def _essentials(trace: Trace) -> dict[str, Any]:
    texts, tracks = trace.strings.decode_all(), trace.tracks

    def meaning(name: str, column: Any) -> Any:
        if column is None:
            return None
        if name in {"category", "name", "overload"}:
            return [texts[i] for i in column]
        return [tracks[i] for i in column] if name == "track" else (column.dtype, column.tolist())

    def pairs(args: Args, rows: int) -> Any:
        rest = args.rest if len(args.rest) else np.zeros(rows, np.uint32)
        columns = {
            key: (column.rows.tolist(), column.values.tolist())
            for key, column in args.integers.items()
            if len(column.rows)
        }
        return columns, [texts[i] for i in rest]

    values: dict[str, Any] = {}
    for table in (trace.slices, trace.marks):
        for name in table.columns():
            column = getattr(table, name)
            values[f"{type(table).__name__}.{name}"] = (
                pairs(column, len(table)) if isinstance(column, Args) else meaning(name, column)
            )
    return values
