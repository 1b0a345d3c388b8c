"""Records the Python stack of each operator, and a timeline of all calls."""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.frameworks.python.paths import set_paths
from stepscope.notices import notify
from stepscope.record.options import AS_TORCH, STACKS, StackMode
from stepscope.record.source import Burden, Source, Stage
from stepscope.record.window import clear_stacks

if TYPE_CHECKING:
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured

_CALIBRATION_ROUNDS = 2_000


class PythonCalls(Source):
    """Records the Python stack of each operator, and calls of Python functions.

    With ``StackMode.CALLS`` every call of a Python function is also a slice, and so is every call
    that the program's own code makes of a function written in C; ``StackMode.ALL_CALLS`` adds those
    that libraries make.
    """

    name = "python"
    burden = Burden.CALLS
    stage = Stage.PYTHON
    when = STACKS
    options = (AS_TORCH,)

    def __init__(self, mode: StackMode = StackMode.CALLS, *, as_torch: bool = False) -> None:
        self._as_torch = as_torch
        self._mode = mode
        self._calls_started = False
        self._obstacle = ""

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options[STACKS], as_torch=options[AS_TORCH])

    def prepare(self) -> None:
        _set_up_once()
        self.code_folders = set_paths()

    def start(self) -> None:
        if self._mode is StackMode.NONE:
            return
        clear_stacks()
        _native.start_stacks()
        if self._mode is StackMode.OPERATORS:
            return
        all_calls = self._mode is StackMode.ALL_CALLS
        self._obstacle = _native.start_calls(all_calls, self._as_torch)
        self._calls_started = not self._obstacle
        if self._obstacle:
            notify(f"Python calls are not recorded, only the stacks of operators: {self._obstacle}")
        else:
            _watch_new_threads()

    def stop(self) -> None:
        if self._mode is StackMode.NONE:
            return
        _native.stop_stacks()
        if self._calls_started:
            self._calls_started = False
            if _native.stop_calls():
                _leave_new_threads()

    def collect(self) -> Captured | None:
        _native.clear_calls()
        return None

    def describe(self) -> str:
        if self._mode is StackMode.NONE:
            return "no Python frames"
        stacks = f"the Python stack of each {_what_has_stacks()}"
        if self._mode is StackMode.OPERATORS:
            return stacks
        if self._obstacle:
            return f"{stacks}; no calls: {self._obstacle}"
        if self._mode is StackMode.ALL_CALLS:
            return f"{stacks}, and all calls"
        return f"{stacks}, and all Python calls"

    def overhead_ns(self) -> float:
        """Return the calibrated cost of one call; 0 while something is recorded."""
        if self._mode in (StackMode.NONE, StackMode.OPERATORS) or self._obstacle:
            return 0.0
        return 0.0 if _native.recording() else _calibrated_ns(self._mode)


def _what_has_stacks() -> str:
    """Return which slices have stacks: in Paddle ranges have, and operators have not."""
    return "range" if "paddle" in sys.modules and "torch" not in sys.modules else "operator"


@functools.cache
def _set_up_once() -> None:
    os.register_at_fork(after_in_child=_native.forget_calls_after_fork)


def _watch_new_threads() -> None:
    if _native.new_thread_hook is None:
        return
    set_by_others = threading.getprofile()
    if set_by_others is None:
        threading.setprofile(_native.new_thread_hook)
    elif set_by_others is not _native.new_thread_hook:
        notify(
            "the calls of threads that start from now on are not recorded: "
            f"threading.setprofile({set_by_others!r}) is in use"
        )


def _leave_new_threads() -> None:
    hook = _native.new_thread_hook
    if hook is not None and threading.getprofile() is hook:
        threading.setprofile(None)


def _nothing() -> None: ...


@functools.cache
def _calibrated_ns(mode: StackMode) -> float:
    """Measure what recording adds to the call of an empty function."""
    window = _native.open_window(0, False)
    try:
        bare_ns = _ns_per_call()
        if _native.start_calls(mode is StackMode.ALL_CALLS):
            return 0.0
        try:
            return max(_ns_per_call() - bare_ns, 0.0)
        finally:
            _native.stop_calls()
    finally:
        _native.close_window(window)
        _native.clear_calls()


def _ns_per_call() -> float:
    before_ns = _native.now_ns()
    for _ in range(_CALIBRATION_ROUNDS):
        _nothing()
    return (_native.now_ns() - before_ns) / _CALIBRATION_ROUNDS
