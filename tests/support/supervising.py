"""Runs commands below the supervisor of `stepscope run`, with and without a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE_S = 60
SUPERVISE = Path(stepscope.__file__).parent / "cli/run/supervise.py"
PYTHON = [sys.executable, "-I", "-S"]

# It writes down every signal that it gets, but SIGUSR2, which ends it.
COUNTS = """
import os, signal
def write(number, _):
    os.write(1, b"%d\\n" % number)
for number in (1, 2, 3, 10, 12, 15, 18, 28, 40):
    signal.signal(number, write if number != 12 else lambda *_: os._exit(0))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def supervised(*command: str, answer: Sequence[str] = (), options: Sequence[str] = ()) -> list[str]:
    """Return the words that run a command below the supervisor."""
    values = ["--answer", str(len(answer)), *answer] if answer else []
    return [*PYTHON, str(SUPERVISE), *options, *values, "--", *command]


@contextlib.contextmanager
def started(*words: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a session of its own; it is killed at the end."""
    process = subprocess.Popen(  # type: ignore[call-overload]
        words, stdout=subprocess.PIPE, text=True, start_new_session=True, **options
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what other processes do."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)


def status_of(pid: int, field: str) -> str:
    """Return a field of a process's status, empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next(line.split("\t")[1] for line in text.splitlines() if line.startswith(f"{field}:"))


def has_ended(pid: int) -> bool:
    return status_of(pid, "State")[:1] in ("", "Z")


class Terminal:
    """A session with a terminal of its own, and what is typed there."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        """Start the session's first process."""
        self._master, slave = os.openpty()
        self.text = ""

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**os.environ, "PS1": "$ ", "TERM": "dumb", **environment},
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 - only between fork and exec
        )
        os.close(slave)

    @classmethod
    def of_shell(cls, folder: Path, **environment: str) -> Self:
        """Start an interactive shell."""
        shell = cls(["bash", "--norc", "--noprofile", "--noediting", "-i"], folder, **environment)
        shell.read_until("$ ")
        return shell

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up: all of the session ends."""
        os.close(self._master)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def read_until(self, text: str) -> str:
        """Return all that is written up to a text."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.text:
            rest = end - time.monotonic()
            is_there = bool(select.select([self._master], [], [], max(rest, 0))[0])
            assert is_there, f"waited in vain for {text!r}: {self.text!r}"
            try:
                self.text += os.read(self._master, 1 << 16).decode()
            except OSError as error:
                raise AssertionError(f"it ended without {text!r}: {self.text!r}") from error
        before, _, self.text = self.text.partition(text)
        return before.replace("\r\n", "\n")

    def read_rest(self) -> str:
        """Return what is written until all have closed the terminal."""
        with contextlib.suppress(OSError):
            while True:
                self.text += os.read(self._master, 1 << 16).decode()
        return self.text.replace("\r\n", "\n")
