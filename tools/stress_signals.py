"""Sends signals to `stepscope run` at random moments, and checks that each ends it as Python ends.

    python tools/stress_signals.py --signals 400 --seed 1

Programs collect garbage, import, save files and exit in several ways. A signal that was sent before
a program's last line must kill the process, as it kills Python; after it, the process may also end
as the program did. Every trace that is said to be saved must open, and nothing else may be left.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Each tells when its first and its last line run: on the clock that all processes share.
_FRAME = """
import os, time
def told(word):
    fd = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{word} {time.monotonic()}\\n".encode())
    os.close(fd)
told("begun")
BODY
told("done")
"""
_PROGRAMS = {
    "collects": (
        """
import gc, weakref
class Node: pass
for _ in range(60):
    nodes = [Node() for _ in range(2000)]
    for node in nodes:
        node.self = node
        node.seen = weakref.ref(node)
    del nodes, node
    gc.collect()
""",
        0,
    ),
    "imports": (
        """
import numpy, polars, decimal, email.mime.text, http.server, sqlite3, unittest.mock, xml.dom.minidom
""",
        0,
    ),
    "saves": (
        """
import json, tempfile
for i in range(40):
    with tempfile.NamedTemporaryFile("w", dir=".", prefix="theirs-", delete=False) as file:
        json.dump(list(range(2000)), file)
    os.unlink(file.name)
""",
        0,
    ),
    "exits": (
        """
import atexit, threading, sys
atexit.register(lambda: sum(range(1000)))
worker = threading.Thread(target=time.sleep, args=(0.2,))
worker.start()
worker.join()
told("done")
sys.exit(7)
""",
        7,
    ),
}
_SAVED = re.compile(r"saved (\S+\.stepscope)|trace is saved: (\S+)|saving the trace to (\S+) ")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Shot:
    """One run, and when it gets which signal."""

    number: int
    program: str
    signal: signal.Signals
    after_s: float


def fire(shot: Shot) -> str:
    """Run a program and send the signal; return what was wrong, empty when nothing was."""
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        body, code = _PROGRAMS[shot.program]
        (folder / "program.py").write_text(_FRAME.replace("BODY", body))
        process = subprocess.Popen(
            [sys.executable, "-m", "stepscope", "run", "--no-summary", "program.py"],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(shot.after_s)
        process.send_signal(shot.signal)
        sent = time.monotonic()  # by now at the latest
        _, errors = process.communicate(timeout=300)
        allowed = {-shot.signal}
        told = _told(folder)
        if "done" in told and told["done"] < sent:
            allowed.add(code)
        if not told:
            allowed.add(1)  # Python itself was starting, and says that it could not
        if process.returncode not in allowed:
            wrong = f"ended with {process.returncode}, not {allowed}"
        else:
            wrong = _judged(folder, errors, is_begun="begun" in told)
        return f"{shot}: {wrong}\n{errors}" if wrong else ""


def _told(folder: Path) -> dict[str, float]:
    """Return when the program came where."""
    told = folder / "told"
    lines = told.read_text().split() if told.exists() else []
    return dict(zip(lines[::2], map(float, lines[1::2]), strict=True))


def _judged(folder: Path, errors: str, *, is_begun: bool) -> str:
    if "Exception ignored" in errors:
        return "something was dropped"
    if is_begun and "stepscope/" in errors.replace(str(folder), "").partition("Traceback")[2]:
        return "our frames are in its traceback"
    return _leftovers(folder, errors, is_begun=is_begun)


def _leftovers(folder: Path, errors: str, *, is_begun: bool) -> str:
    from stepscope import read_trace

    said = [next(filter(None, match)) for match in _SAVED.findall(errors)]
    for path in said:
        read_trace(folder / path)
    if is_begun and not said:
        return "the trace is not said to be saved"
    known = {"program.py", "told", "tmp", "__pycache__", *said}
    left = [p.name for p in folder.iterdir() if p.name not in known]
    left += [p.name for p in (folder / "tmp").iterdir()]
    left = [name for name in left if not name.startswith("theirs-")]
    return f"left behind: {left}" if left else ""


def main() -> int:
    """Fire all signals; return 1 when one of them was not handled as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--signals", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--longest", type=float, default=3.0, help="seconds until the last signal")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    names = list(_PROGRAMS)
    shots = [
        Shot(i, names[i % len(names)], chance.choice(_SIGNALS), chance.uniform(0.1, args.longest))
        for i in range(args.signals)
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        wrong = [told for told in pool.map(fire, shots) if told]
    print("\n\n".join([*wrong, f"{len(shots) - len(wrong)} of {len(shots)} ended as they should"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
