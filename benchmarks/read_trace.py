"""Reading a torch trace of 1.5 million events: Stepscope beside HTA and orjson.

Every tool runs in a process of its own, so that its peak memory is its own. HTA needs pandas < 3;
a tool that is not installed is named as not measured.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from common import Row, peak_bytes, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = "hta__df_index_resolver__df_index_resolver.json.gz"
SOURCE = ROOT.parent / "shared" / "traces" / SAMPLE
COPIES = 7
PERIOD_US = 2_000_000  # longer than the sample
ID_STEP = 10_000_000  # more than any id in it
HTA_BAR = 10.0
ORJSON_BAR = 3.0
MEMORY_BAR_BYTES = 1.2e9


class Measured(NamedTuple):
    """The best time and the largest memory of one tool; a note when it could not be measured."""

    seconds: float = 0.0
    peak_bytes: int = 0
    note: str = ""


def make_input(source: Path, target: Path, copies: int = COPIES) -> int:
    """Write the sample some times over, each later and with ids of its own; return its size."""
    text = gzip.decompress(source.read_bytes()).decode()
    opening, events, closing = re.split(
        r"(?<=\"traceEvents\": \[)|(?=\n  \],\n  \"traceName\")", text
    )
    pattern = re.compile(r'"(ts|id|External id|correlation)": (\d+)')
    size = 0
    with gzip.open(target, "wb", compresslevel=6) as file:
        size += file.write(opening.encode())
        for copy in range(copies):
            steps = {"ts": copy * PERIOD_US}

            def shifted(match: re.Match[str], steps: dict[str, int] = steps, n: int = copy) -> str:
                key, number = match.groups()
                return f'"{key}": {int(number) + steps.get(key, n * ID_STEP)}'

            size += file.write((pattern.sub(shifted, events) + "," * (copy < copies - 1)).encode())
        size += file.write(closing.encode())
    return size


def measure_stepscope(path: str) -> float:
    from stepscope.formats.chrome.read import read_chrome

    begin = time.perf_counter()
    read_chrome(path)
    return time.perf_counter() - begin


def measure_hta(path: str) -> float:
    from hta.common.trace import Trace

    begin = time.perf_counter()
    Trace({0: path}, trace_dir=str(Path(path).parent)).load_traces(use_multiprocessing=False)
    return time.perf_counter() - begin


def measure_orjson(path: str) -> float:
    import orjson

    with gzip.open(path) as file:
        text = file.read()
    begin = time.perf_counter()
    orjson.loads(text)
    return time.perf_counter() - begin


TOOLS: dict[str, Callable[[str], float]] = {
    "stepscope": measure_stepscope,
    "hta": measure_hta,
    "orjson": measure_orjson,
}


def measured(tool: str, path: Path) -> Measured:
    """Measure one tool in a process of its own."""
    command = [sys.executable, __file__, tool, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Measured(note=f"not measured: {reason}")
    took, peak_bytes = json.loads(done.stdout.splitlines()[-1])
    return Measured(took, peak_bytes)


def best(tries: list[Measured]) -> Measured:
    """Return the best time and the largest memory."""
    if any(each.note for each in tries):
        return tries[0]
    return Measured(min(t.seconds for t in tries), max(t.peak_bytes for t in tries))


def compared(what: str, ours: Measured, name: str, peer: Measured, bar: float) -> Row:
    """Return the row of one comparison."""
    if note := ours.note or peer.note:
        return Row(what, seconds(ours.seconds), f"{name}: {note}", "–", f"≥ {bar:g} ×", None)
    ratio = peer.seconds / ours.seconds
    beside = f"{name} {seconds(peer.seconds)}"
    text = f"{ratio:.1f} × faster"
    return Row(what, seconds(ours.seconds), beside, text, f"≥ {bar:g} ×", ratio >= bar)


def rows(repeats: int = 3) -> list[Row]:
    """Compare in turn; HTA, which takes a minute, is run once."""
    if not SOURCE.exists():
        note = f"skipped: needs the sample trace {SAMPLE}"
        return [Row("reading a trace of 1.5M events", "–", note, "–", "–", None)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json.gz"
        make_input(SOURCE, path)
        turns = [(measured("stepscope", path), measured("orjson", path)) for _ in range(repeats)]
        hta = measured("hta", path)
    ours, orjson = best([turn[0] for turn in turns]), best([turn[1] for turn in turns])
    memory = f"{ours.peak_bytes / 1e6:.0f} MB"
    fits = not ours.note and ours.peak_bytes <= MEMORY_BAR_BYTES
    beside = f"HTA {hta.peak_bytes / 1e6:.0f} MB" if hta.peak_bytes else f"HTA: {hta.note}"
    share = f"1/{hta.peak_bytes / ours.peak_bytes:.0f}" if hta.peak_bytes else "–"
    return [
        compared("reading a json.gz of 1.5M events", ours, "HTA", hta, HTA_BAR),
        compared("the same", ours, "orjson of the inflated text", orjson, ORJSON_BAR),
        Row("peak memory of the reading process", memory, beside, share, "≤ 1200 MB", fits),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        elapsed = TOOLS[sys.argv[1]](sys.argv[2])
        print(json.dumps([elapsed, peak_bytes()]))
    else:
        for row in rows():
            print(row)
