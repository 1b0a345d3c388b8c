"""What the tests of the recording side share: a clock set by hand, and a trace read by eye."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepscope
from stepscope import _native
from stepscope.record.recorder import Recorder
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.record.limits import MemoryLimit
    from stepscope.trace.model import Trace

SOURCE_DIR = Path(stepscope.__file__).parent.parent  # whichever is being tested


@contextlib.contextmanager
def manual_clock(start_ns: int = 0, tick_ns: int = 0) -> Iterator[None]:
    """Let time stand still but for ``advance_clock`` and ``tick_ns`` at each reading."""
    _native.use_manual_clock(start_ns, tick_ns)
    try:
        yield
    finally:
        _native.use_system_clock()


@contextlib.contextmanager
def ranges_recorded(limit: MemoryLimit | None = None, **options: Any) -> Iterator[Session]:
    """Record the user's ranges, and no framework."""
    session = Session(Recorder([], limit), **options)
    session.start()
    try:
        yield session
    finally:
        session.stop()


def run_in_threads(count: int, work: Callable[[int], None]) -> list[threading.Thread]:
    """Let so many threads do it at once, each with its number, and wait for them."""
    threads = [threading.Thread(target=work, args=(i,), name=f"t{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return threads


@contextlib.contextmanager
def nothing_left_on() -> Iterator[None]:
    """Check that what was off before is off afterwards."""
    was_on = _native.recording()
    yield
    assert was_on or not _native.recording(), "something still records"


@contextlib.contextmanager
def turns_taken_often() -> Iterator[None]:
    """Let busy threads take turns every 0.1 ms: what meets their work meets it in more places."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


def trace_of(session: Session) -> Trace:
    assert session.trace is not None
    return session.trace


def parents(trace: Trace) -> list[tuple[str, str | None]]:
    """Return (name, parent's name) of every slice, in order."""
    return [
        (trace.name_of(row), None if parent < 0 else trace.name_of(parent))
        for row, parent in enumerate(trace.slices.parent)
    ]


def row_of(trace: Trace, name: str) -> int:
    """Return the one slice of that name."""
    (row,) = [row for row, other in enumerate(trace.names()) if other == name]
    return row


def chain_of(trace: Trace, row: int) -> tuple[str, ...]:
    """Return the names from a slice up to the top."""
    names = []
    while row >= 0:
        names.append(trace.name_of(row))
        row = int(trace.slices.parent[row])
    return tuple(names)


def thread_of(trace: Trace, row: int) -> str:
    return trace.tracks[trace.slices.track[row]].thread_name


def run_python(
    code: str, *arguments: str, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, with some variables set, or (None) unset."""
    process = start_python(code, *arguments, **environment)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_python(code: str, *arguments: str, **environment: str | None) -> subprocess.Popen[str]:
    everything = {**os.environ, "PYTHONPATH": str(SOURCE_DIR), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={name: value for name, value in everything.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
