"""Records a child process at its parent's request, and delivers a file.

Failures here must not end the child, which belongs to the program.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.notices import notify
from stepscope.record.stream.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.source import Source
    from stepscope.record.window import Window

    MakeSources = Callable[[], Sequence[Source]]

_LOADERS = ("torch.utils.data", "paddle.io")  # they know which worker of a loader this process is


class Word(Enum):
    """What parent and child tell each other."""

    RECORD = "record"  # the parent's order; the recording goes to ``path``
    SAVE = "save"  # the parent's order to stop recording
    RECORDING = "recording"
    SAVED = "saved"  # the child's file is complete, or there is nothing to save
    LEAVING = "leaving"  # the child's last message


@dataclass(frozen=True, slots=True)
class Message:
    """A message between parent and child, sent as JSON."""

    word: Word
    cycle: int = 0
    path: str = ""

    def send(self, line: Connection) -> None:
        line.send_bytes(json.dumps([self.word.value, self.cycle, self.path]).encode())

    @staticmethod
    def receive(line: Connection) -> Message:
        """Wait for the next message; raise EOFError or OSError if there will be none."""
        word, cycle, path = json.loads(line.recv_bytes())
        return Message(Word(word), int(cycle), str(path))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a child is started with: a connection to its parent, and how to record."""

    line: Connection
    make_sources: MakeSources
    limit: MemoryLimit | None
    first: Message | None  # the current order when the child starts


class RecordedRun:
    """Replaces ``run`` of a process that is being started, and is pickled along with it."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._assignments = tuple(assignments)

    def __call__(self) -> None:
        process = multiprocessing.current_process()
        vars(process).pop("run", None)
        with contextlib.ExitStack() as agents:
            for assignment in self._assignments:
                try:
                    agent = _Agent(assignment)
                except Exception as error:
                    _complain(error)
                else:
                    agents.callback(agent.finish)
            process.run()


class _Agent:
    """Follows the parent's orders on a thread of its own until the child ends."""

    def __init__(self, assignment: Assignment) -> None:
        self._line = assignment.line
        self._recording = ChildRecording(assignment.make_sources(), assignment.limit)
        self._order: Message | None = None
        self._lock = threading.Lock()
        if assignment.first is not None:
            self._follow(assignment.first)
        threading.Thread(target=self._listen, name="stepscope", daemon=True).start()

    def finish(self) -> None:
        try:
            with self._lock:
                self._save()
                self._recording.close()
                Message(Word.LEAVING).send(self._line)
        except OSError:
            pass  # the parent has exited
        except Exception as error:
            _complain(error)

    def _listen(self) -> None:
        try:
            while True:
                self._follow(Message.receive(self._line))
        except (EOFError, OSError):
            return  # the parent's profiler has ended
        except Exception as error:
            _complain(error)

    def _follow(self, order: Message) -> None:
        with self._lock:
            self._save()
            if order.word is Word.RECORD:
                self._recording.start()
                self._order = order
                Message(Word.RECORDING, order.cycle).send(self._line)
            else:
                Message(Word.SAVED, order.cycle).send(self._line)

    def _save(self) -> None:
        order, self._order = self._order, None
        if order is None:
            return
        self._recording.stop().save(Path(order.path))


class ChildRecording:
    def __init__(self, sources: Sequence[Source], limit: MemoryLimit | None) -> None:
        self._sources = tuple(sources)
        self._limit = limit
        self._window: Window | None = None
        for source in self._sources:
            source.open()

    def start(self) -> None:
        from stepscope.record.window import Window

        for source in self._sources:
            source.prepare()
        self._window = Window(self._limit)
        for source in self._sources:
            source.start()
        self._window.restart()

    def stop(self) -> Delivery:
        assert self._window is not None
        window, self._window = self._window, None
        with contextlib.ExitStack() as stops:
            for source in self._sources:
                stops.callback(source.stop)
        recorded = window.close()
        from stepscope.trace.join import merge_parts, named

        parts = [part for source in self._sources if (part := source.collect()) is not None]
        captured = named(merge_parts([recorded.captured, *parts]), os.getpid(), _own_name())
        lost = sum(source.lost for source in self._sources)
        return Delivery(captured, recorded.losses.events + lost)

    def close(self) -> None:
        for source in self._sources:
            source.close()


def _own_name() -> str:
    """Name the process: by its worker number in a loader, else as multiprocessing does."""
    loaders = filter(None, map(sys.modules.get, _LOADERS))
    workers = (worker for loader in loaders if (worker := loader.get_worker_info()) is not None)
    worker = next(workers, None)
    return f"DataLoader worker {worker.id}" if worker else multiprocessing.current_process().name


def _complain(error: Exception) -> None:
    notify(f"process {os.getpid()} is not recorded: {type(error).__name__}: {error}")
