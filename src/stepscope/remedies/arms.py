"""Arms of a trial: processes of the program that take turns, each with changes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import StepscopeError
from stepscope.remedies import apart

_CUSTOMIZE = Path(__file__).parents[1] / "record" / "inside" / "start" / "sitecustomize.py"
_AGENT = Path(__file__).with_name("inside") / "agent.py"
# As the recorder's own start: by path, because the package would bring modules with it.
_LOAD = """\
import _frozen_importlib_external, sys
path = {path!r}
module = sys.modules["stepscope_try_agent"] = type(sys)("stepscope_try_agent")
module.__file__ = path
_frozen_importlib_external.SourceFileLoader("stepscope_try_agent", path).exec_module(module)
module.begin()
"""
_LAUNCHER = str(Path(__file__).with_name("apart.py"))


TOO_SLOW = "no step ended in time"


class RefusedError(StepscopeError):
    """The program cannot be tried; the message says why."""


class ArmFailedError(StepscopeError):
    """An arm ended early or took too long."""


class Program(NamedTuple):
    """The command under trial, and how it is kept apart."""

    words: tuple[str, ...]
    folder: Path  # of its own source files
    network: bool
    stdin: Path
    scratch: Path
    apart: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str], folder: Path, scratch: Path, *, network: bool) -> Program:
        stdin = scratch / "stdin"
        is_given = sys.stdin is not None and not sys.stdin.closed and not sys.stdin.isatty()
        with stdin.open("wb") as file:
            if is_given:
                with contextlib.suppress(OSError, ValueError):
                    shutil.copyfileobj(sys.stdin.buffer, file)
        start = scratch / "inside" / "start"
        start.mkdir(parents=True)
        shutil.copy(_CUSTOMIZE, start)
        (scratch / "inside" / "load.py").write_text(_LOAD.format(path=str(_AGENT)))
        places = [str(Path.cwd()), str(folder), str(Path.home()), "/tmp", "/var/tmp", "/dev/shm"]
        places.append(tempfile.gettempdir())
        folders = tuple(apart.outermost(places))
        return cls(tuple(words), folder, network, stdin, scratch, folders)


class TooSlowError(ArmFailedError):
    """An arm has ended no step in the time that it had."""


class Report(NamedTuple):
    """What an arm has told at the end of a window."""

    event: str
    facts: Mapping[str, Any]


class Arm:
    """One process of the program; it runs only when it has the turn."""

    def __init__(
        self,
        program: Program,
        name: str,
        unit: str,
        edits: Mapping[str, str],
        seconds: float = 0.0,
    ) -> None:
        """Start the program with edited files; with no unit it is surveyed for some seconds."""
        self.name = name
        self.is_over = False
        self.started_s = 0.0
        self._began = time.perf_counter()
        self._line, theirs = socket.socketpair()
        self._pending = b""
        self._home = Path(tempfile.mkdtemp(prefix="arm-", dir=program.scratch))
        self._log = self._home / "output"
        (self._home / "memory").mkdir()
        plan = {
            "mode": "turns" if unit else "survey",
            "unit": unit,
            "fd": theirs.fileno(),
            "roots": [str(program.folder), str(Path.cwd())],
            "seconds": seconds,
            "network": program.network,
            "apart": [*program.apart, "/dev", "/proc"],
            "path": os.environ.get("PYTHONPATH"),
        }
        path, start = plan["path"], str(program.scratch / "inside" / "start")
        environment = {
            "STEPSCOPE_TRY": json.dumps(plan),
            "PYTHONPATH": start if path is None else f"{start}:{path}",
            "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        }
        outer = {
            "trial": os.getpid(),
            "words": program.words,
            "fd": theirs.fileno(),
            "network": program.network,
            "apart": program.apart,
            "scratch": str(self._home / "memory"),
            "folder": str(Path.cwd()),
            "edits": dict(edits),
            "environment": environment,
        }
        plan_file = self._home / "plan"
        plan_file.write_text(json.dumps(outer), encoding="utf-8")
        with self._log.open("wb") as log, program.stdin.open("rb") as stdin:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, str(plan_file)],
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()

    # ---- turns

    def start(self, deadline: float) -> Report:
        """Wait until the program is at the end of its first step, or at its end."""
        report = self._next(deadline)
        self.started_s = time.perf_counter() - self._began
        self._pause()
        return report

    def window(self, steps: int, deadline: float, *, digest: bool) -> Report:
        """Let the program run for some steps, while all other arms stand still."""
        self._signal(signal.SIGCONT)
        command = json.dumps({"steps": steps, "digest": digest}).encode() + b"\n"
        with contextlib.suppress(OSError):
            self._line.sendall(command)
        report = self._next(deadline)
        self._pause()
        return report

    def run_to_end(self, deadline: float) -> Report:
        """Wait for a program without steps; the last fact is how long it ran."""
        report = self._next(deadline)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.1, deadline - time.perf_counter()))
        self.started_s = time.perf_counter() - self._began
        return report

    def printed(self) -> str:
        """Return what the program has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """End the program with all its processes, and remove what it has written."""
        self.is_over = True
        self._line.close()
        self._signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _pause(self) -> None:
        if not self.is_over:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _next(self, deadline: float) -> Report:
        while b"\n" not in self._pending:
            rest_s = deadline - time.perf_counter()
            ready = select.select([self._line], [], [], max(0.0, rest_s))[0]
            if not ready:
                raise TooSlowError(TOO_SLOW)
            with contextlib.suppress(ConnectionResetError):
                data = self._line.recv(1 << 20)
            if not data:
                self.is_over = True
                self._explain_end()
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        facts = json.loads(line)
        report = Report(facts.pop("event"), facts)
        if report.event == "refused":
            raise RefusedError(f"the program cannot be tried: {facts['reason']}")
        if report.event in ("end", "surveyed"):
            self.is_over = True
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self._process.wait(max(0.1, deadline - time.perf_counter())):
                    self._explain_end()
        return report

    def _explain_end(self) -> None:
        code = self._process.wait()
        lines = self.printed().strip().splitlines() or ["nothing was printed"]
        if code == apart.NOT_APART:
            raise RefusedError(
                f"what the program writes cannot be kept apart on this machine ({lines[-1]})"
            )
        raise ArmFailedError(f"it ended with {code}: {lines[-1][:200]}")
