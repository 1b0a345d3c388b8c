"""A Python program, run inside this process as if Python had been started with it."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import signal
import sys
import threading
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, TracebackType

    from stepscope.cli.command import ExitCode

    _Handler = Callable[[int, Any], Any] | int | None

_INTERRUPTED = 130  # the shell's exit code for death by SIGINT
_OUR_MODULES = {__name__, "importlib.util"}


@dataclass(frozen=True, slots=True)
class Program:
    """A script or a module, and its arguments."""

    target: str
    args: tuple[str, ...]
    is_module: bool

    @staticmethod
    def of(words: Sequence[str]) -> Program:
        """Take the words as Python does: ``script.py [args...]`` or ``-m module [args...]``."""
        words = words[1:] if words[:1] == ["--"] else words
        is_module = bool(words) and words[0].startswith("-m")
        if is_module:
            attached = words[0].removeprefix("-m")
            words = [attached, *words[1:]] if attached else words[1:]
        if not words:
            what = "a module after -m" if is_module else "a script, or a module with -m"
            raise StepscopeError(f"there is nothing to run: give {what}")
        return Program(words[0], tuple(words[1:]), is_module)

    @property
    def name(self) -> str:
        """Return its display name: the script's file name or the module's name."""
        return self.target if self.is_module else Path(self.target).name

    def check(self) -> None:
        """Raise StepscopeError when a script does not exist or cannot be read."""
        path = Path(self.target)
        if self.is_module:
            return
        if path.is_dir():
            raise StepscopeError(f"{self.target!r} is a folder: name the script in it")
        if not path.exists():
            raise StepscopeError(f"the script {self.target!r} does not exist")
        if not os.access(path, os.R_OK):
            raise StepscopeError(f"the script {self.target!r} cannot be read")

    def prepare(self) -> None:
        """Give it its ``sys.argv`` and ``sys.path``; raise StepscopeError for a missing module."""
        sys.argv = ["-m" if self.is_module else self.target, *self.args]
        if not sys.flags.safe_path:
            folder = Path.cwd() if self.is_module else Path(self.target).resolve().parent
            sys.path[0] = str(folder)
        if self.is_module and importlib.util.find_spec(self.target.partition(".")[0]) is None:
            raise StepscopeError(f"there is no module {self.target!r} in this folder or sys.path")

    def run(self) -> BaseException | None:
        """Run it to its end; return what ended it early, with a traceback of its own frames."""
        ended: BaseException | None = None
        try:
            self._execute()
        except _NotRunnableError:
            raise
        except BaseException as error:
            ended = error
        if ended is None or type(ended) is SystemExit:
            try:
                _wait_for_threads()
            except BaseException as error:
                ended = error
        return ended and ended.with_traceback(_without_our_frames(ended.__traceback__))

    def _execute(self) -> None:
        main = ModuleType("__main__")
        vars(main)["__builtins__"] = builtins
        code = self._module_code(main) if self.is_module else self._script_code(main)
        sys.modules["__main__"] = main  # and it stays there: threads and exit handlers need it
        exec(code, vars(main))

    def _script_code(self, main: ModuleType) -> CodeType:
        # As Python makes it absolute: nothing but the folder in front.
        path = self.target
        if not Path(path).is_absolute():
            path = f"{Path.cwd()}{os.sep}{path}"
        main.__file__ = path
        main.__loader__ = SourceFileLoader("__main__", path)
        main.__package__ = None
        with io.open_code(path) as file:
            return compile(file.read(), path, "exec", dont_inherit=True)

    def _module_code(self, main: ModuleType) -> CodeType:
        spec = self._module_spec()
        code = spec.loader.get_code(spec.name) if isinstance(spec.loader, InspectLoader) else None
        if code is None:
            raise _NotRunnableError(f"module {spec.name!r} has no Python code to run")
        main.__spec__ = spec
        main.__loader__ = spec.loader
        main.__package__ = spec.parent
        if spec.origin is not None:
            main.__file__ = sys.argv[0] = spec.origin
        return code

    def _module_spec(self) -> ModuleSpec:
        """Find the module, or a package's ``__main__``; its parents are imported for that."""
        try:
            spec = importlib.util.find_spec(self.target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{self.target}.__main__")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{self.target}.".startswith(f"{error.name}."):
                raise  # it was found, and itself imports something that is not there
            spec = None
        if spec is None:
            raise _NotRunnableError(
                f"there is no module {self.target!r} that can be run: a package needs a __main__"
            )
        return spec


class _NotRunnableError(StepscopeError):
    """There is no such program."""


class _Terminated(SystemExit):
    """Somebody asked the process to end."""


class ExitOnTerminate:
    """Turns SIGTERM into an exit while the block runs, so that the trace can still be saved.

    A program's own SIGTERM handler keeps working.
    """

    def __enter__(self) -> Self:
        """Handle SIGTERM unless it already has a handler."""
        self._handler: _Handler = signal.getsignal(signal.SIGTERM)
        if self._handler is signal.SIG_DFL:
            self._set(self._exit)
            os.register_at_fork(after_in_child=self.__exit__)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handler."""
        if signal.getsignal(signal.SIGTERM) == self._handler:
            self._set(signal.SIG_DFL)

    def ignore(self) -> None:
        """Ignore SIGTERM for the rest of the block."""
        if signal.getsignal(signal.SIGTERM) == self._handler:
            self._set(signal.SIG_IGN)

    def _set(self, handler: _Handler) -> None:
        self._handler = handler
        signal.signal(signal.SIGTERM, handler)

    def _exit(self, number: int, _frame: object) -> None:
        raise _Terminated(128 + number)


def how_it_ended(ended: BaseException | None) -> str:
    """Say what ended a program early; empty when nothing did."""
    if isinstance(ended, _Terminated):
        return "by SIGTERM"
    if isinstance(ended, KeyboardInterrupt):
        return "by Ctrl-C"
    if isinstance(ended, SystemExit):
        return f"by sys.exit({ended.code!r})" if ended.code not in {None, 0} else ""
    if ended is None:
        return ""
    lines = str(ended).splitlines()
    return f"by {type(ended).__name__}" + (f": {lines[0]}" if lines else "")


def honoured(ended: BaseException | None) -> ExitCode:
    """Handle a program's end as Python does; return the value for ``sys.exit``."""
    if ended is None:
        return 0
    if isinstance(ended, SystemExit):
        return ended.code
    sys.excepthook(type(ended), ended, ended.__traceback__)
    return _INTERRUPTED if isinstance(ended, KeyboardInterrupt) else 1


def _wait_for_threads() -> None:
    """Wait for the threads that Python itself would wait for, so that their work is recorded."""
    pools = sys.modules.get("concurrent.futures.thread")
    # Idle pool workers wait for the exit signal, which comes after this.
    pool_workers = set(getattr(pools, "_threads_queues", ()))
    for thread in threading.enumerate():
        if not (thread.daemon or thread is threading.current_thread() or thread in pool_workers):
            thread.join()


def _without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__") not in _OUR_MODULES:
            break
        traceback = traceback.tb_next
    return traceback
