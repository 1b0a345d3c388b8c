"""Records child processes: DataLoader workers, pools, all of multiprocessing.

A process that starts while a profiler runs, by fork, spawn or forkserver, is connected to it. On
request it records, on the clock that all processes of a machine share, and writes a file that
becomes part of the parent's trace. It delivers on request, when it ends, and before its parent
terminates or kills it; a child that ends otherwise loses its events and is counted. A child's
memory events are omitted, as the trace's totals are those of one process.
"""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import multiprocessing.process
import os
import shutil
import threading
import time
import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope._native import shielded
from stepscope.frameworks.python.child_recorder import (
    Assignment,
    Message,
    RecordedRun,
    Word,
)
from stepscope.notices import notify
from stepscope.private_folders import new_private_folder
from stepscope.record.options import WORKERS
from stepscope.record.patching import Patches
from stepscope.record.source import Source, Stage, make_sources
from stepscope.record.stream.delivery import DELIVERY, Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from stepscope.frameworks.python.child_recorder import MakeSources
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured

_START_TIMEOUT_S = 5.0  # a child that is busy for longer is recorded from when it is free
_SAVE_TIMEOUT_S = 10.0

_watching: list[ChildProcesses] = []


@dataclass(slots=True, eq=False)
class _Link:
    serial: int
    process: weakref.ref[BaseProcess]
    line: Connection
    recording: int = 0  # the cycle that it records or has recorded
    saved: int = 0
    is_gone: bool = False


class ChildProcesses(Source):
    """Connects to children while it is open; they record between start and stop.

    Session calls ``open`` and ``close``, as workers may be started before the first recorded step.
    """

    name = "child processes"
    stage = Stage.PROCESSES
    when = WORKERS

    def __init__(self, make_sources: MakeSources, limit: MemoryLimit | None = None) -> None:
        """``make_sources`` makes a child's sources there; it must be picklable."""
        self._make_sources = make_sources
        self._limit = limit
        self._links: list[_Link] = []
        self._started = 0
        self._folder: Path | None = None
        self._cycle = 0
        self._is_on = False
        self._is_uncollected = False
        self._closes_itself = False
        self._summary = "none were recorded"
        self._lock = threading.RLock()  # children start and end on any thread

    @classmethod
    def made_for(cls, options: RecordOptions, limit: MemoryLimit | None) -> Source:
        """Have each child make the same sources, except the device's, which the parent records."""
        theirs = options.but(device=False, device_records=(), power=False, counters=False)
        return cls(partial(make_sources, theirs, limit), limit)

    # Life cycle of a source.

    def open(self) -> None:
        """Connect to every child that is started from now on."""
        if self not in _watching:
            _patches.acquire()
            _watching.append(self)

    def start(self) -> None:
        with self._lock:
            self._closes_itself = self not in _watching
            self.open()
            self._cycle += 1
            self._is_on = True
            for link in tuple(self._links):
                self._send(link, self._order(link))
            self._wait(self._links, lambda link: link.recording == self._cycle, _START_TIMEOUT_S)

    def stop(self) -> None:
        with self._lock:
            self._is_on = False
            self._is_uncollected = True
            for link in tuple(self._links):
                self._send(link, Message(Word.SAVE, self._cycle))

    def collect(self) -> Captured | None:
        with self._lock:
            if not self._is_uncollected:
                return None
            self._is_uncollected = False
            recorded = self._who_recorded()
            self._wait(recorded, lambda link: link.saved == self._cycle, _SAVE_TIMEOUT_S)
            captures = self._read_files()
            self._links = [link for link in self._links if not link.is_gone]
            if self._closes_itself:
                self.close()
        self.lost = sum(capture.lost for capture in captures.values())
        self._summary = f"{len(captures)} recorded"
        silent = sum(link.serial not in captures for link in recorded)
        if silent:
            self._summary += f"; {silent} ended before they could deliver"
            notify(f"child processes: {self._summary}")
        if not captures:
            return None
        from stepscope.trace.join import merge_parts, placed

        return merge_parts(list(placed(captures[i].captured for i in sorted(captures))))

    def close(self) -> None:
        with self._lock:
            if self in _watching:
                _watching.remove(self)
                _patches.release()
            for link in self._links:
                link.line.close()
            self._links = []
            folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def describe_running(self) -> str:
        return ""

    def describe(self) -> str:
        return self._summary

    # Called by multiprocessing.

    def assign(self, process: BaseProcess) -> Assignment:
        ours, theirs = multiprocessing.connection.Pipe()
        with self._lock:
            self._started += 1
            link = _Link(self._started, weakref.ref(process), ours)
            self._links.append(link)
            first = self._order(link) if self._is_on else None
        return Assignment(theirs, self._make_sources, self._limit, first)

    def fetch_from(self, process: BaseProcess) -> None:
        """Have a process deliver before it is terminated or killed."""
        with self._lock:
            if not self._is_on:
                return
            mine = [link for link in self._who_recorded() if link.process() is process]
            for link in mine:
                self._send(link, Message(Word.SAVE, self._cycle))
            self._wait(mine, lambda link: link.saved == self._cycle, _START_TIMEOUT_S)

    def forget_in_fork(self) -> None:
        """Close the connections that a forked child inherited."""
        self._lock = threading.RLock()  # a thread that does not exist here may hold the old one
        for link in self._links:
            link.line.close()
        self._links = []
        self._folder = None  # it belongs to the parent

    # Connections to children.

    def _order(self, link: _Link) -> Message:
        if self._folder is None:
            self._folder = new_private_folder("children-")
        path = self._folder / f"{self._cycle}-{link.serial}{DELIVERY}"
        return Message(Word.RECORD, self._cycle, str(path))

    def _who_recorded(self) -> list[_Link]:
        """Return the children that began to record in this cycle."""
        for link in tuple(self._links):
            with contextlib.suppress(OSError):
                while not link.is_gone and link.line.poll():
                    self._hear(link)
        return [link for link in self._links if link.recording == self._cycle]

    @staticmethod
    def _send(link: _Link, order: Message) -> None:
        with contextlib.suppress(OSError):  # it has ended; its last messages may still arrive
            order.send(link.line)

    def _wait(
        self, links: Sequence[_Link], is_done: Callable[[_Link], bool], timeout_s: float
    ) -> None:
        """Read messages until every child has sent the awaited one, or has ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            awaited = {link.line: link for link in links if not (is_done(link) or link.is_gone)}
            left_s = deadline - time.monotonic()
            if not awaited or left_s <= 0:
                return
            for line in multiprocessing.connection.wait(list(awaited), left_s):
                self._hear(awaited[line])  # type: ignore[index]

    @staticmethod
    def _hear(link: _Link) -> None:
        try:
            message = Message.receive(link.line)
        except (EOFError, OSError):
            link.is_gone = True
            return
        match message.word:
            case Word.RECORDING:
                link.recording = message.cycle
            case Word.SAVED:
                link.saved = message.cycle
            case Word.LEAVING:
                link.is_gone = True

    def _read_files(self) -> dict[int, Delivery]:
        captures = {}
        for path in self._folder.glob(f"{self._cycle}-*{DELIVERY}") if self._folder else ():
            serial = int(path.stem.partition("-")[2])
            try:
                captures[serial] = Delivery.load(path)
            except Exception as error:  # a bad file must not lose the parent's own trace
                notify(f"what a child process recorded cannot be read: {error}")
            path.unlink(missing_ok=True)
        return captures


# ---- multiprocessing


def _patch_multiprocessing(patches: Patches) -> None:
    base: Any = multiprocessing.process.BaseProcess
    for name, around in (("start", _start), ("terminate", _end), ("kill", _end)):
        patches.wrap(base, name, partial(_method, around))


def _method(around: Callable[..., Any], plain: Callable[..., Any]) -> Callable[[BaseProcess], Any]:
    def call(process: BaseProcess) -> Any:
        return around(plain, process)

    return call


def _start(plain: Callable[[BaseProcess], None], process: BaseProcess) -> None:
    if not _watching or "run" in vars(process):
        return plain(process)
    try:
        assignments = [watcher.assign(process) for watcher in _watching]
    except Exception as error:  # no folder or descriptor: the program's process must start anyway
        notify(f"a child process is not recorded: {type(error).__name__}: {error}")
        return plain(process)
    process.run = RecordedRun(assignments)  # type: ignore[method-assign]
    try:
        return plain(process)
    finally:
        vars(process).pop("run", None)
        for assignment in assignments:
            assignment.line.close()


def _end(plain: Callable[[BaseProcess], None], process: BaseProcess) -> None:
    for watcher in tuple(_watching):
        with contextlib.suppress(Exception):  # the process must end in any case
            watcher.fetch_from(process)
    plain(process)


def _forget_in_fork() -> None:
    for watcher in _watching:
        watcher.forget_in_fork()
    _watching.clear()


_patches = Patches(_patch_multiprocessing)
os.register_at_fork(after_in_child=shielded(_forget_in_fork))
