"""What the tests of Python's stacks and calls share: recording them, and reading them by eye."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.record.options import StackMode
from stepscope.recorder import Recorder
from stepscope.session import Session
from stepscope.sources.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.record import MemoryLimit
    from stepscope.trace.model import Trace


@contextlib.contextmanager
def stacks_recorded() -> Iterator[Session]:
    """Record the user's ranges with their stacks."""
    session = Session([PythonCalls(StackMode.OPERATORS)])
    session.start()
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def calls_recorded(limit: MemoryLimit | None = None) -> Iterator[Session]:
    """Record ranges and all calls."""
    session = Session(Recorder([PythonCalls(StackMode.CALLS)], limit))
    session.start()
    try:
        yield session
    finally:
        session.stop()


def frames_of(trace: Trace, row: int) -> list[str]:
    """Return a slice's frames, innermost first."""
    return [trace.strings[i] for i in trace.stacks.frames(int(trace.slices.stack[row]))]


def place(function: Callable[..., Any], line_below: int, name: str = "") -> str:
    """Return what a frame is called that stands some lines below the first of its function."""
    code = function.__code__
    return f"{Path(code.co_filename).name}({code.co_firstlineno + line_below}): " + (
        name or function.__qualname__
    )
