"""Reading a torch trace of 1.5 million events: Stepscope beside HTA and orjson.

Every tool runs in a process of its own, so that its peak memory is its own. HTA needs pandas < 3;
a tool that is not installed is named as not measured.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from common import in_child, peak_bytes, timed_s
from rows import Row, faster_row, limit_row, megabytes, note_row
from sample import repeat, sample

if TYPE_CHECKING:
    from collections.abc import Callable

COPIES = 7
HTA_BAR = 10.0
ORJSON_BAR = 3.0
MEMORY_BAR_BYTES = 1.2e9


def stepscope_s(path: str) -> float:
    import stepscope

    return timed_s(lambda: stepscope.read_trace(path))


def hta_s(path: str) -> float:
    from hta.common.trace import Trace

    trace = Trace({0: path}, trace_dir=str(Path(path).parent))
    return timed_s(lambda: trace.load_traces(use_multiprocessing=False))


def orjson_s(path: str) -> float:
    import orjson

    with gzip.open(path) as file:
        text = file.read()
    return timed_s(lambda: orjson.loads(text))


TOOLS: dict[str, Callable[[str], float]] = {
    "stepscope": stepscope_s,
    "hta": hta_s,
    "orjson": orjson_s,
}


def measured(tool: str, path: Path, times: int) -> tuple[list[float], list[float]]:
    """Return the seconds and the peak bytes of some processes; none where it is not installed."""
    if importlib.util.find_spec(tool) is None:
        return [], []
    runs = [in_child("read_trace", tool, str(path)) for _ in range(times)]
    return [taken for taken, _ in runs], [float(peak) for _, peak in runs]


def compared(what: str, ours: list[float], theirs: list[float], beside: str, bar: float) -> Row:
    """Return the row of one comparison."""
    if not theirs:
        return note_row(what, f"{beside} is not installed: pip install --group bench")
    return faster_row(what, ours[: len(theirs)], theirs, beside, bar)


def rows(quick: bool = False) -> list[Row]:
    """Compare with each tool; HTA, which takes a minute, is run twice."""
    copies, times = (1, 2) if quick else (COPIES, 3)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.json.gz"
        source, called = sample(Path(name))
        repeat(source, path, copies)
        what = f"reading a json.gz of {path.stat().st_size / 1e6:.0f} MB, {called} × {copies}"
        ours, our_bytes = measured("stepscope", path, times)
        orjson, _ = measured("orjson", path, times)
        hta, hta_bytes = measured("hta", path, 2)
    peer = f"HTA {megabytes(max(hta_bytes))}" if hta_bytes else ""
    peak = "peak memory of the reading process"
    return [
        compared(what, ours, hta, "HTA", HTA_BAR),
        compared("the same", ours, orjson, "orjson of the inflated text", ORJSON_BAR),
        limit_row(peak, our_bytes, MEMORY_BAR_BYTES, megabytes, peer=peer),
    ]


if __name__ == "__main__":
    print(json.dumps([TOOLS[sys.argv[1]](sys.argv[2]), peak_bytes()]))
