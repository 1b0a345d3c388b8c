"""The stream of this process: turning it on and off, and what is noted in it every second.

Nothing here imports NumPy: the profiled program may want to configure it first.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.notices import notify
from stepscope.record.stream.places import StreamFolders, new_memory_folder
from stepscope.record.stream.processes import ProcessId
from stepscope.record.threads import thread_names
from stepscope.trace.process_facts import process_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_MOST_MEMORY = 1 << 40  # the tmpfs itself sets the limit

FACTS, THREADS, SOURCES, PROCESS = "facts", "threads", "sources", "process"
"""What is noted of a process, by name."""


class ProcessStream:
    """The stream of one process of a run."""

    _current: ProcessStream | None = None

    def __init__(self, folders: StreamFolders) -> None:
        """Take the run's folders; nothing is written yet."""
        self.folders = folders
        self._pid = os.getpid()
        self._modules = -1
        self._told: dict[str, str] = {}
        self.describe: Callable[[], Mapping[str, Any]] | None = None  # what the sources say

    @classmethod
    def of_this_process(cls) -> ProcessStream | None:
        """Return the one that streams now; a child that was forked has none of its parent's."""
        current = cls._current
        return current if current is not None and current._pid == os.getpid() else None

    def start(self) -> None:
        """Have everything that is recorded from now on outlive the process."""
        memory = self.folders.memory_of(self._pid)
        if memory is not None:
            try:
                memory.mkdir(mode=0o700)
            except OSError:
                memory = None
        segments = self.folders.segments_of(self._pid)
        _native.start_stream(str(memory or ""), str(segments), _MOST_MEMORY)
        ProcessStream._current = self
        self.tell()
        _native.set_stream_ticker(self.tell)

    def tell(self) -> None:
        """Note what has changed of the process; it is called every second or so."""
        if os.getpid() != self._pid or not _native.is_streaming():
            return
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._note(FACTS, process_facts())
        self._note(THREADS, {str(key): name for key, name in thread_names().items()})
        if self.describe is not None:
            self._note(SOURCES, self.describe())
        obstacle = _native.stream_obstacle()
        if obstacle:
            notify(f"the recording cannot be streamed to disk, and stays in memory: {obstacle}")

    def note(self, name: str, value: object) -> None:
        """Note something of the process by name; what was noted before under it is replaced."""
        self._note(name, value)

    def stop(self) -> None:
        """Stream no more; the files stay until ``forget``."""
        if os.getpid() == self._pid:
            _native.set_stream_ticker(None)
            _native.stop_stream()
        ProcessStream._current = None

    def forget(self) -> None:
        """Remove the files of this process: what they hold was handed over."""
        import shutil

        memory = self.folders.memory_of(self._pid)
        if memory is not None:
            shutil.rmtree(memory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folders.segments_of(self._pid).unlink(missing_ok=True)

    def _note(self, name: str, value: object) -> None:
        text = json.dumps(value, default=str)
        if self._told.get(name) != text:
            self._told[name] = text
            _native.note_in_stream(name, text)


def new_folders(disk: Path, about: dict[str, Any]) -> StreamFolders:
    """Make the folders of a run that this process begins; the one on disk may not be there."""
    memory = new_memory_folder()
    folders = StreamFolders(str(disk), str(memory or ""), ProcessId.own(), about)
    folders.write()
    return folders
