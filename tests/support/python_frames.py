"""What the tests of Python's stacks and calls share: recording them, and reading them by eye."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from recording import nothing_left_on, parents, row_of
from stepscope.frameworks.python.calls import PythonCalls
from stepscope.record.options import StackMode
from stepscope.record.recorder import Recorder
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.record.limits import MemoryLimit
    from stepscope.trace.model import Trace

MONITORED = sys.version_info >= (3, 12)  # by sys.monitoring, which needs no profile function
evaluates = pytest.mark.skipif(MONITORED, reason="frames are not evaluated by us")
LEN = "<built-in function len>"


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
def calls_recorded(
    limit: MemoryLimit | None = None, mode: StackMode = StackMode.CALLS
) -> Iterator[Session]:
    """Record ranges and calls."""
    session = Session(Recorder([PythonCalls(mode)], limit))
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


@contextlib.contextmanager
def no_calls_left_on() -> Iterator[None]:
    """Check that nothing records afterwards, and that nothing is told of calls."""
    with nothing_left_on():
        yield
    assert sys.getprofile() is None
    assert threading.getprofile() is None
    if MONITORED:
        assert "stepscope" not in map(sys.monitoring.get_tool, range(6))
    else:
        assert evaluator() == DEFAULT_EVALUATOR


def evaluator() -> int | None:
    """Return the address of what evaluates frames, see PEP 523."""
    get = ctypes.pythonapi._PyInterpreterState_GetEvalFrameFunc
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    address: int | None = get(_interpreter())
    return address


def set_evaluator(address: int | None) -> None:
    """Let frames be evaluated by what stands at the address."""
    set_function = ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc
    set_function.restype, set_function.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    set_function(_interpreter(), address)


def _interpreter() -> int | None:
    get = ctypes.pythonapi.PyInterpreterState_Get
    get.restype = ctypes.c_void_p
    address: int | None = get()
    return address


DEFAULT_EVALUATOR = ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p).value


def in_library(source: str, **names: Any) -> Callable[..., Any]:
    """Return the function that the source defines, as an installed package would have it."""
    scope: dict[str, Any] = names
    before = set(scope)
    exec(compile(textwrap.dedent(source), "/opt/site-packages/library.py", "exec"), scope)
    (function,) = [scope[name] for name in scope.keys() - before - {"__builtins__"}]
    return cast("Callable[..., Any]", function)


def named(function: Callable[..., Any]) -> str:
    """Return what a call of the function is called: by its first line."""
    return place(function, 0, function.__name__)


def running(function: Callable[..., Any], line_below: int) -> str:
    """Return what a call is called that was running already: by the line that it stood at."""
    return place(function, line_below, function.__name__)


def count(trace: Trace, function: Callable[..., Any]) -> int:
    """Return how many calls of the function there are."""
    return list(trace.names()).count(named(function))


def calls_below(trace: Trace, name: str) -> list[tuple[str, str | None]]:
    """Return (name, parent's name) of all that happened inside of the one call of that name."""
    top = row_of(trace, name)
    end = trace.slices.end_ns[top]
    return [
        pair
        for row, pair in enumerate(parents(trace))
        if row > top
        and trace.slices.start_ns[row] < end
        and trace.slices.track[row] == trace.slices.track[top]
    ]
