"""Sends signals at random moments to a program below `stepscope run`; it ends as it would alone.

    python tools/stress_signals.py --signals 400 --seed 1
    python tools/stress_signals.py --supervisor --longest 1    # without recording

A signal goes to the program's process, to the process that was started, to the group of either, or
to all of them. Programs count signals, collect garbage, import, write files and exit in several
ways. One that handles a signal must get it once. Any other must be killed by a signal that was sent
before its last line, as Python is; after it, it may also end as it would have. There must be one
answer, which says how the program has ended.
"""

from __future__ import annotations

import argparse
import contextlib
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
from functools import partial
from pathlib import Path

import stepscope

SUPERVISE = Path(stepscope.__file__).parent / "cli/run/supervise.py"

# Each notes when its first and its last line run: on the clock that all processes share.
_FRAME = """
import os, signal, time
def note(word):
    fd = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{word} {time.monotonic()}\\n".encode())
    os.close(fd)
note("pid %d" % os.getpid())
note("begun")
BODY
note("done")
"""
_PROGRAMS = {
    "counts": (
        """
def count(number, _):
    note("got")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, count)
note("handles")
end = time.monotonic() + 0.7
while time.monotonic() < end:
    sum(range(1000))
""",
        0,
    ),
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
import decimal, email.mime.text, http.server, sqlite3, unittest.mock, xml.dom.minidom
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
note("done")
sys.exit(7)
""",
        7,
    ),
}
_SAVED = re.compile(r"saved +(\S+\.stepscope)")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PASSED_ON_S = 0.1  # the supervisor waits 10 ms for the sentinel, longer on a busy machine
_RECEIVERS = ("process", "parent", "group", "parent's group", "all")


@dataclass(frozen=True)
class Shot:
    """One run, and who gets which signal when."""

    number: int
    program: str
    signal: signal.Signals
    receiver: str
    after_s: float


def fire(is_supervisor: bool, shot: Shot) -> str:
    """Run a program and send the signal; return what was wrong, empty when nothing was."""
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        body, code = _PROGRAMS[shot.program]
        (folder / "program.py").write_text(_FRAME.replace("BODY", body))
        with (folder / "errors").open("w+") as errors:  # killed programs leave workers with pipes
            process = subprocess.Popen(
                _supervised() if is_supervisor else _run(),
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder / "tmp")},
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_block_signals if is_supervisor else None,  # noqa: PLW1509
            )
            time.sleep(shot.after_s)
            _send(shot, process.pid, folder)
            sent = time.monotonic()  # by now at the latest
            process.wait(300)
            errors.seek(0)
            text = errors.read()
        allowed = _allowed_ends(shot, code, _notes(folder), sent)
        if process.returncode not in allowed:
            wrong = f"ended with {process.returncode}, not {allowed}"
        elif is_supervisor:
            wrong = _judged_answer(folder, process.returncode)
        else:
            wrong = _judged_trace(folder, text)
        return f"{shot}: {wrong}\n{text}" if wrong else ""


def _supervised() -> list[str]:
    answer = ["sh", "-c", 'echo "$0" >>answers']
    program = [sys.executable, "program.py"]
    words = ["--signals", "0", "0", "--answer", str(len(answer)), *answer, "--", *program]
    return [sys.executable, "-I", "-S", str(SUPERVISE), *words]


def _block_signals() -> None:
    """Do as `stepscope run` does before it executes the supervisor."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _run() -> list[str]:
    return [sys.executable, "-m", "stepscope", "run", "--no-report", sys.executable, "program.py"]


def _send(shot: Shot, parent: int, folder: Path) -> None:
    """Send the signal, to the parent alone while there is no program yet."""
    program = next((int(word) for word in _words(folder)[1:2]), 0)
    with contextlib.suppress(ProcessLookupError):
        if shot.receiver in ("process", "all") and program:
            os.kill(program, shot.signal)
            if shot.receiver == "process":
                return
        if shot.receiver in ("group", "all") and program:
            os.killpg(os.getpgid(program), shot.signal)
            if shot.receiver == "group":
                return
        if shot.receiver in ("parent's group", "all"):
            os.killpg(parent, shot.signal)
        else:
            os.kill(parent, shot.signal)


def _words(folder: Path) -> list[str]:
    notes = folder / "notes"
    return notes.read_text().split() if notes.exists() else []


def _notes(folder: Path) -> dict[str, list[float]]:
    """Return when the program came where."""
    notes: dict[str, list[float]] = {}
    for word, text in zip(*[iter(_words(folder)[3:])] * 2, strict=False):
        with contextlib.suppress(ValueError):
            notes.setdefault(word, []).append(float(text))
    return notes


def _allowed_ends(shot: Shot, code: int, notes: dict[str, list[float]], sent: float) -> set[int]:
    received = len(notes.get("got", ()))
    if received:
        return {code} if received == 1 else set()
    allowed = {-int(shot.signal)}
    if "done" in notes and notes["done"][0] < sent + _PASSED_ON_S:
        allowed.add(code)
    if "begun" not in notes:
        allowed.add(1)  # Python itself was starting, and says that it could not
    if shot.program == "counts" and "handles" in notes and notes["handles"][0] < sent - 1:
        allowed = {code}
    return allowed


def _judged_answer(folder: Path, code: int) -> str:
    answers = folder / "answers"
    text = answers.read_text().split() if answers.exists() else []
    if not text and not (folder / "notes").exists():
        return ""  # the supervisor was ended while Python started
    expected = f"signal:{-code}" if code < 0 else f"exit:{code}"
    return "" if text == [expected] else f"the answers are {text}"


def _judged_trace(folder: Path, text: str) -> str:
    from stepscope import read_trace

    matches = _SAVED.findall(text)
    for path in matches:
        read_trace(folder / path)
    is_begun = "begun" in _notes(folder)
    if is_begun and not matches:  # the signal has ended the answer: the next reader gives it
        matches = [path.name for path in folder.glob("*.stepscope")]
        if len(matches) != 1 or not len(read_trace(folder / matches[0])):
            return "the trace is neither saved nor left to be read"
    if is_begun and "stepscope/" in text.replace(str(folder), "").partition("Traceback")[2]:
        return "our frames are in its traceback"
    expected = {"program.py", "notes", "errors", "tmp", "__pycache__", *matches}
    rest = [path.name for path in folder.iterdir() if path.name not in expected]
    rest += [path.name for path in (folder / "tmp").iterdir()]
    rest = [name for name in rest if not name.startswith("theirs-")]
    return f"left behind: {rest}" if rest else ""


def main() -> int:
    """Fire all signals; return 1 when one of them was not handled as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--signals", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--longest", type=float, default=3.0, help="seconds until the last signal")
    parser.add_argument("--supervisor", action="store_true", help="without recording")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    names = list(_PROGRAMS)
    shots = [
        Shot(
            i,
            names[i % len(names)],
            chance.choice(_SIGNALS),
            chance.choice(_RECEIVERS),
            chance.uniform(0.02, args.longest),
        )
        for i in range(args.signals)
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        wrong = [line for line in pool.map(partial(fire, args.supervisor), shots) if line]
    print("\n\n".join([*wrong, f"{len(shots) - len(wrong)} of {len(shots)} ended as they should"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
