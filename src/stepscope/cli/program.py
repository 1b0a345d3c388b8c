"""A Python program, run inside this process as if Python had been started with it."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib.util
import io
import os
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from importlib.abc import InspectLoader
from importlib.machinery import BuiltinImporter, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stepscope.cli.signals import Terminated, interrupted_at_exit
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, TracebackType

    from stepscope.cli.command import ExitCode
    from stepscope.cli.signals import Interrupts

_LONGEST_SHEBANG = 256
# Its exit code is the shell's for a program that a signal has ended.
_RUN_COMMAND = """
import subprocess, sys
code = subprocess.call(sys.argv)
sys.exit(128 - code if code < 0 else code)
"""
_OUR_PACKAGE = __name__.partition(".")[0]


class Kind(Enum):
    """What Python can be started with."""

    SCRIPT = "a script"
    MODULE = "a module after -m"
    CODE = "code after -c"
    COMMAND = "a command"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended."""

    error: BaseException | None = None  # that ended it early
    abandons_threads: bool = False  # they are not to be waited for any more


@dataclass(frozen=True, slots=True)
class Program:
    """A script, a module or code, and its arguments."""

    target: str
    args: tuple[str, ...]
    kind: Kind

    @staticmethod
    def of(words: Sequence[str]) -> Program:
        """Take the words as Python does: ``script.py``, ``-m module`` or ``-c code``, arguments."""
        words = words[1:] if words[:1] == ["--"] else words
        kind = Kind.SCRIPT
        for flag, meant in (("-m", Kind.MODULE), ("-c", Kind.CODE)):
            if words and words[0].startswith(flag):
                kind, attached = meant, words[0].removeprefix(flag)
                words = [attached, *words[1:]] if attached else words[1:]
                break
        if not words:
            what = "a script, a module with -m or code with -c"
            missing = what if kind is Kind.SCRIPT else kind.value
            raise StepscopeError(f"there is nothing to run: give {missing}")
        if kind is Kind.SCRIPT and not Path(words[0]).exists():
            return Program._of_command(words)
        return Program(words[0], tuple(words[1:]), kind)

    @staticmethod
    def _of_command(words: Sequence[str]) -> Program:
        """Take a launcher by its name: one in Python is run as a script, so that it is seen."""
        beside = str(Path(sys.executable).parent)  # an environment that is not activated
        found = os.sep not in words[0] and shutil.which(
            words[0], path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
        )
        if not found:
            return Program(words[0], tuple(words[1:]), Kind.SCRIPT)
        if os.path.realpath(found) == os.path.realpath(sys.executable):
            return Program.of(words[1:])
        with contextlib.suppress(OSError), open(found, "rb") as file:  # noqa: PTH123
            first = file.readline(_LONGEST_SHEBANG)
            if first.startswith(b"#!") and b"python" in first:
                return Program(found, tuple(words[1:]), Kind.SCRIPT)
        return Program(found, tuple(words[1:]), Kind.COMMAND)

    @property
    def stem(self) -> str:
        """Return what its trace is called."""
        if self.kind is Kind.CODE:
            return "code"
        return self.target if self.kind is Kind.MODULE else Path(self.target).stem

    def folders(self) -> list[Path]:
        """Return where its own files are."""
        return [Path(self.target).absolute().parent] if self.kind is Kind.SCRIPT else []

    @property
    def name(self) -> str:
        """Return its display name: the script's file name or the module's name."""
        if self.kind is Kind.CODE:
            return "-c"
        return self.target if self.kind is Kind.MODULE else Path(self.target).name

    def check(self) -> None:
        """Raise StepscopeError when a script does not exist or cannot be read."""
        path = Path(self.target)
        if self.kind is not Kind.SCRIPT:
            return
        if path.is_dir():
            raise StepscopeError(f"{self.target!r} is a folder: name the script in it")
        if not path.exists():
            raise StepscopeError(f"the script {self.target!r} does not exist")
        if not os.access(path, os.R_OK):
            raise StepscopeError(f"the script {self.target!r} cannot be read")

    def prepare(self) -> None:
        """Give it its ``sys.argv`` and ``sys.path``; raise StepscopeError for a missing module."""
        is_module = self.kind is Kind.MODULE
        flags = {Kind.MODULE: "-m", Kind.CODE: "-c"}
        sys.argv = [flags.get(self.kind, self.target), *self.args]
        if not sys.flags.safe_path:
            sys.path[0] = self._folder()
        if is_module and importlib.util.find_spec(self.target.partition(".")[0]) is None:
            raise StepscopeError(f"there is no module {self.target!r} in this folder or sys.path")

    def _folder(self) -> str:
        if self.kind is Kind.CODE:
            return ""  # whichever is the current one
        return str(Path.cwd() if self.kind is Kind.MODULE else Path(self.target).resolve().parent)

    def run(self, interrupts: Interrupts) -> Ending:
        """Run it to its end; what ended it early has a traceback of its own frames.

        From its last line on, ``interrupts`` have Ctrl-C.
        """
        ended: BaseException | None = None
        begun = False
        try:
            code, namespace = self._prepared()
            begun = True  # from here to the program's first line no signal is handled
            try:
                exec(code, namespace)
            finally:
                interrupts.take()
        except _NotRunnableError:
            raise
        except BaseException as error:
            ended = error
            interrupts.take()  # a Ctrl-C may have come in the moment in which they were taken
        if ended is not None:
            remove_our_frames(ended)
        if begun and isinstance(ended, KeyboardInterrupt) and ended.__traceback__ is None:
            interrupts.came += 1  # not one line of the program was running any more
            ended = ended.__context__  # what had ended it, if anything had
        abandons = (ended is None or type(ended) is SystemExit) and _abandons_threads(interrupts)
        return Ending(ended, abandons)

    def _prepared(self) -> tuple[CodeType, dict[str, Any]]:
        main = ModuleType("__main__")
        vars(main)["__builtins__"] = builtins
        code = self._code(main)
        sys.modules["__main__"] = main  # and it stays there: threads and exit handlers need it
        return code, vars(main)

    def _code(self, main: ModuleType) -> CodeType:
        if self.kind is Kind.MODULE:
            return self._module_code(main)
        if self.kind is Kind.CODE:
            main.__loader__ = BuiltinImporter
            main.__package__ = None
            return compile(self.target, "<string>", "exec", dont_inherit=True)
        if self.kind is Kind.COMMAND:
            return compile(_RUN_COMMAND, "<command>", "exec", dont_inherit=True)
        return self._script_code(main)

    def _script_code(self, main: ModuleType) -> CodeType:
        # As Python makes it absolute: nothing but the folder in front.
        path = self.target
        if not Path(path).is_absolute():
            path = f"{Path.cwd()}{os.sep}{path}"
        main.__file__ = path
        main.__loader__ = SourceFileLoader("__main__", path)
        main.__package__ = None
        try:
            with io.open_code(path) as file:
                text = file.read()
        except OSError as error:
            error.filename = path  # reading does not tell it, opening does
            raise
        return compile(text, path, "exec", dont_inherit=True)

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


class EndedOutside(BaseException):
    """Something ended the program without Python knowing; the text says what."""


class _NotRunnableError(StepscopeError):
    """There is no such program."""


def how_it_ended(ended: BaseException | None) -> str:
    """Say what ended a program early; empty when nothing did."""
    if isinstance(ended, EndedOutside):
        return str(ended)
    if isinstance(ended, Terminated):
        return f"by {signal.Signals(ended.number).name}"
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
    return interrupted_at_exit() if isinstance(ended, KeyboardInterrupt) else 1


def leave_at_once(code: ExitCode) -> None:
    """Exit without waiting for threads: somebody pressed Ctrl-C while we waited for them."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if isinstance(code, str):
        print(code, file=sys.stderr, flush=True)
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _abandons_threads(interrupts: Interrupts) -> bool:
    """Wait for threads as Python does; tell whether Ctrl-C ended the waiting."""
    if interrupts.came:
        return bool(_awaited_threads())
    interrupts.raises = True
    try:
        for thread in _awaited_threads():
            thread.join()
    except KeyboardInterrupt as error:
        interrupts.raises = False
        # As Python itself says it in this place.
        print(f"Exception ignored in: {threading!r}\n{type(error).__name__}: ", file=sys.stderr)
        return True
    interrupts.raises = False
    return False


def _awaited_threads() -> list[threading.Thread]:
    """Return the threads that Python itself would wait for, so that their work is recorded."""
    pools = sys.modules.get("concurrent.futures.thread")
    # Idle pool workers wait for the exit signal, which comes after this.
    spared = {threading.current_thread(), *getattr(pools, "_threads_queues", ())}
    return [each for each in threading.enumerate() if not each.daemon and each not in spared]


def remove_our_frames(error: BaseException) -> None:
    """Leave only the program's frames in a traceback, and in those of what it came from.

    What was raised by a call of ours that the program itself made keeps the frames of that call.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        keeps_last = isinstance(each, Exception)
        each.__traceback__ = _without_our_frames(each.__traceback__, keeps_last=keeps_last)
        waiting += [each.__cause__, each.__context__]


def _without_our_frames(
    traceback: TracebackType | None, *, keeps_last: bool
) -> TracebackType | None:
    entries: list[TracebackType] = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    theirs = [entry for entry in entries if not _is_ours(entry)]
    if not theirs:
        return None
    if keeps_last:
        theirs += entries[entries.index(theirs[-1]) + 1 :]
    for entry, following in zip(theirs, [*theirs[1:], None], strict=True):
        entry.tb_next = following
    return theirs[0]


def _is_ours(entry: TracebackType) -> bool:
    name = str(entry.tb_frame.f_globals.get("__name__", ""))
    if name == "importlib.util":  # it looks for the module that is to be run
        back = entry.tb_frame.f_back
        return back is not None and back.f_globals.get("__name__") == __name__
    return name == _OUR_PACKAGE or name.startswith(f"{_OUR_PACKAGE}.")
