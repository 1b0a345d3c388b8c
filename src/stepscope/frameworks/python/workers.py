"""Child processes that record themselves: DataLoader workers, pools, all of multiprocessing.

A process that is started while a profiler runs, by fork, spawn or forkserver, is connected to it.
It records on request, on the clock that all processes of a machine share, and writes a file that
becomes part of the parent's trace. It delivers on request, when it ends, and before the parent
terminates or kills it; a child that is killed otherwise loses its events, and is counted. A child's
memory events are left out: the trace's totals are those of one process.
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
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope._native import shielded
from stepscope.frameworks.python.child_recorder import (
    DELIVERY,
    Assignment,
    ChildCapture,
    Message,
    RecordedRun,
    Word,
    named,
)
from stepscope.notices import notify
from stepscope.private_folders import new_private_folder
from stepscope.record.options import WORKERS
from stepscope.record.patching import Patches
from stepscope.record.source import Source, Stage, make_sources
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.streaming import ProcessStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from stepscope.frameworks.python.child_recorder import MakeSources
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.places import StreamFolders
    from stepscope.trace.schema import Captured

_START_TIMEOUT_S = 5.0  # a child that is busy for longer is recorded from when it is free
_SAVE_TIMEOUT_S = 10.0
_NUMBERS_OF_A_PROCESS = 1 << 32  # frameworks number threads and launches anew in each
_MOST = 1 << 62  # a number that is not counted may be any of 64 bits

_watching: list[ChildProcesses] = []


@dataclass(slots=True, eq=False)
class _Link:
    """The parent's end of a connection to a child."""

    serial: int
    process: weakref.ref[BaseProcess]
    line: Connection
    recording: int = 0  # the cycle that it records, or has recorded
    saved: int = 0
    is_gone: bool = False


class ChildProcesses(Source):
    """The source: while it is open, children are connected; between start and stop they record.

    ``open`` and ``close`` are for a Session that knows them: workers may well be started before the
    first step that is recorded.
    """

    name = "child processes"
    stage = Stage.PROCESSES
    when = WORKERS

    def __init__(self, make_sources: MakeSources, limit: MemoryLimit | None = None) -> None:
        """Take what makes a child's sources there; it must be picklable."""
        self._make_sources = make_sources
        self._limit = limit
        self._links: list[_Link] = []
        self._started = 0
        self._folder: Path | None = None
        self._cycle = 0
        self._is_on = False
        self._is_uncollected = False
        self._closes_itself = False
        self._said = "none were recorded"
        self._lock = threading.RLock()  # children come and go on any thread

    @classmethod
    def made_for(cls, options: RecordOptions, limit: MemoryLimit | None) -> Source:
        """Have each child make the same sources, but for the device's: that one is the parent's."""
        theirs = options.but(device=False, device_records=(), power=False, counters=False)
        return cls(partial(make_sources, theirs, limit), limit)

    # The life of a source.

    def open(self) -> None:
        """Connect to every child that is started from now on."""
        if self not in _watching:
            _patches.acquire()
            _watching.append(self)

    def start(self) -> None:
        """Tell the children to record, those that run and those started later."""
        with self._lock:
            self._closes_itself = self not in _watching
            self.open()
            self._cycle += 1
            self._is_on = True
            for link in tuple(self._links):
                self._send(link, self._order(link))
            self._wait(self._links, lambda link: link.recording == self._cycle, _START_TIMEOUT_S)

    def stop(self) -> None:
        """Tell them to stop; they save while we do."""
        with self._lock:
            self._is_on = False
            self._is_uncollected = True
            for link in tuple(self._links):
                self._send(link, Message(Word.SAVE, self._cycle))

    def collect(self) -> Captured | None:
        """Gather what the children left, each as a process of its own."""
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
        self._said = f"{len(captures)} recorded"
        silent = sum(link.serial not in captures for link in recorded)
        if silent:
            self._said += f"; {silent} ended before they could deliver"
            notify(f"child processes: {self._said}")
        if not captures:
            return None
        from stepscope.trace.join import merge_parts

        return merge_parts(list(_placed(captures[i].captured for i in sorted(captures))))

    def close(self) -> None:
        """Disconnect from the children, and restore multiprocessing."""
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

    @classmethod
    def recover(cls, left: LeftBehind) -> Captured | None:
        """Return what the children of a run's own process delivered, or left."""
        if left.pid != left.folders.owner.pid:
            return None
        from stepscope.record.stream.recovering import captured_of
        from stepscope.trace.join import merge_parts

        delivered = [each.captured for each in _delivered(left.folders)]
        known = {track.pid for each in delivered for track in each.tracks}
        for pid in left.folders.processes()[1:]:
            if str(pid) in known:
                continue
            child = LeftBehind.of(left.folders, pid)
            name = child.meta.get("sources", {}).get("process", "")
            delivered.append(named(captured_of(child)[0], pid, name or f"process {pid}"))
        return merge_parts(list(_placed(delivered))) if delivered else None

    def describe_running(self) -> str:
        """Say nothing: who delivers is known at the end."""
        return ""

    def describe(self) -> str:
        """Say how many children delivered."""
        return self._said

    # Calls from multiprocessing.

    def assign(self, process: BaseProcess) -> Assignment:
        """Connect to a process that is about to be started."""
        ours, theirs = multiprocessing.connection.Pipe()
        with self._lock:
            self._started += 1
            link = _Link(self._started, weakref.ref(process), ours)
            self._links.append(link)
            first = self._order(link) if self._is_on else None
        folders = self._streamed()
        return Assignment(theirs, self._make_sources, self._limit, first, folders)

    def _streamed(self) -> StreamFolders | None:
        """Return where children stream to: beside us, where it is we who are streamed."""
        current = ProcessStream.of_this_process()
        return current.folders if current is not None and self._is_on else None

    def fetch_from(self, process: BaseProcess) -> None:
        """Let a process that is about to be ended deliver first."""
        with self._lock:
            if not self._is_on:
                return
            mine = [link for link in self._who_recorded() if link.process() is process]
            for link in mine:
                self._send(link, Message(Word.SAVE, self._cycle))
            self._wait(mine, lambda link: link.saved == self._cycle, _START_TIMEOUT_S)

    def forget_in_fork(self) -> None:
        """Close the connections that a forked child inherited."""
        self._lock = threading.RLock()  # a thread that is not in the child may hold the old one
        for link in self._links:
            link.line.close()
        self._links = []
        self._folder = None  # it is the parent's

    # Lines.

    def _order(self, link: _Link) -> Message:
        if self._folder is None:
            self._folder = self._new_folder()
        path = self._folder / f"{self._cycle}-{link.serial}{DELIVERY}"
        return Message(Word.RECORD, self._cycle, str(path))

    def _new_folder(self) -> Path:
        """Make a folder of our own for what children deliver.

        Where we are streamed, it is found after our death.
        """
        folders = self._streamed()
        if folders is not None and folders.memory:
            captures = folders.captures() / str(os.getpid())
            with contextlib.suppress(OSError):
                captures.parent.mkdir(mode=0o700, exist_ok=True)
                captures.mkdir(mode=0o700, exist_ok=True)
                return captures
        return new_private_folder("children-")

    def _who_recorded(self) -> list[_Link]:
        """Return the children that began to record in this cycle: the others have nothing."""
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
        """Read messages until every child has sent the one awaited, or has ended."""
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
            case Word.WITHDRAWN:
                link.recording, link.is_gone = 0, True
            case Word.LEAVING:
                link.is_gone = True

    def _read_files(self) -> dict[int, ChildCapture]:
        captures = {}
        for path in self._folder.glob(f"{self._cycle}-*{DELIVERY}") if self._folder else ():
            serial = int(path.stem.partition("-")[2])
            try:
                captures[serial] = ChildCapture.load(path)
            except Exception as error:  # a bad file must not cost the parent's own trace
                notify(f"what a child process recorded cannot be read: {error}")
            path.unlink(missing_ok=True)
        return captures


def _delivered(folders: StreamFolders) -> Iterator[ChildCapture]:
    """Yield what children had delivered when their parent died."""
    if not folders.memory:
        return  # only there is it ours alone
    for path in sorted(folders.captures().glob(f"*/*{DELIVERY}")):
        with contextlib.suppress(OSError, ValueError):  # one that is damaged is left out
            yield ChildCapture.load(path)


def _placed(delivered: Iterable[Captured]) -> Iterator[Captured]:
    """Give threads and links numbers that no other process has, and leave out memory.

    What a child delivers may hold numbers of several processes: those of its own children.
    """
    from stepscope.trace.model import Held, Memory, Owners
    from stepscope.trace.table import Remap

    largest = 0
    for captured in delivered:
        offset = (largest // _NUMBERS_OF_A_PROCESS + 1) * _NUMBERS_OF_A_PROCESS % _MOST
        moved = Remap(link_offset=offset)
        slices, marks = captured.slices.remap(moved), captured.marks.remap(moved)
        forward_thread = slices.forward_thread + offset * (slices.forward_thread > 0)
        threads = [each.logical_id + offset * (each.logical_id > 0) for each in captured.tracks]
        yield replace(
            captured,
            slices=replace(slices, forward_thread=forward_thread),
            marks=marks,
            tracks=tuple(
                replace(each, logical_id=thread)
                for each, thread in zip(captured.tracks, threads, strict=True)
            ),
            memory=Memory.empty(),
            owners=Owners.empty(),
            held=Held.empty(),
        )
        largest = max(offset, slices.largest_link(), marks.largest_link(), *threads)


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
        assignments = [each.assign(process) for each in _watching]
    except Exception as error:  # no folder, or no file descriptor: the program's process starts
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
    for each in tuple(_watching):
        with contextlib.suppress(Exception):  # the process is to end, whatever becomes of us
            each.fetch_from(process)
    plain(process)


def _forget_in_fork() -> None:
    for each in _watching:
        each.forget_in_fork()
    _watching.clear()


_patches = Patches(_patch_multiprocessing)
os.register_at_fork(after_in_child=shielded(_forget_in_fork))
