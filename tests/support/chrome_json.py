"""Small Chrome traces to read, as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepscope.formats import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def read_text(folder: Path, text: str | bytes, name: str = "trace.json") -> Trace:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(path)


def trace_of(*events: Any, **top: Any) -> str:
    return json.dumps({**top, "traceEvents": events})


def slice_of(**fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "c", "name": "n", "pid": 1, "tid": 2, "ts": 0, "dur": 1, **fields}
