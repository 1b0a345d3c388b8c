"""What one process of a run left in its stream."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope import _native
from stepscope.errors import TraceReadError
from stepscope.notices import notify
from stepscope.record.stream.delivery import Delivery
from stepscope.record.stream.notes import PATHS, SOURCES, THREADS
from stepscope.trace.plain import PlainError
from stepscope.trace.regular_file import free_memory_bytes
from stepscope.trace.stored_info import fitting
from stepscope.trace.strings import valid_value

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.record.stream.places import StreamFolders

_THREAD = re.compile(r"[0-9]{1,18}")  # a thread id
_Kind = TypeVar("_Kind", str, int)
_MAIN_THREAD = "MainThread"  # threading's name for it; the program may not import threading
_SMALL_BYTES = 4 << 20  # smaller files are read without a look at the free memory
_COPIES = 2  # copies of a file in memory while it is read


@dataclass(frozen=True)
class LeftBehind:
    """What one process left: its stream, and what it noted of itself."""

    folders: StreamFolders
    name: str  # of its files
    native: _native.RecoveredStream
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: StreamFolders, name: str, since_ns: int = 0) -> LeftBehind:
        """Read the files of a process, without the slices that began before a moment."""
        memory, segments = folders.memory_of(name), folders.segments_of(name)
        _check_room(segments)
        native = _native.RecoveredStream(str(memory or ""), str(segments), since_ns)
        return cls(folders, name, native, _valid_json(native.meta()))

    @property
    def pid(self) -> int:
        return int(self.name.partition(".")[0])

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return how the reading went, and the last sign of life."""
        return dict(self.native.facts())

    def use_paths(self) -> None:
        """Name the files of its stacks as the process would have, for later reads of ``native``."""
        with contextlib.suppress(KeyError, TypeError):  # no valid paths were noted
            _native.set_paths(*self.meta[PATHS]["told"])

    def noted_by_sources(self, what: str, kind: type[_Kind]) -> dict[str, _Kind]:
        """Return the values of one kind that sources noted under a key, by source."""
        values = self.meta.get(SOURCES, {}).get(what)
        pairs = values.items() if isinstance(values, dict) else ()
        return {name: value for name, value in pairs if type(value) is kind}

    @property
    def thread_names(self) -> dict[int, str]:
        """Return the names of threads by the system's number."""
        noted = {
            int(key): name
            for key, name in self.meta.get(THREADS, {}).items()
            if _THREAD.fullmatch(key) and isinstance(name, str)
        }
        return {self.pid: _MAIN_THREAD, **noted}

    def delivered(self) -> list[Delivery]:
        """Return the events that its sources kept in memory until its end."""
        deliveries = []
        for path in self.folders.deliveries_of(self.name):
            try:
                deliveries.append(Delivery.load(path))
            except (OSError, PlainError) as error:
                notify(f"{path.name} cannot be read: {error}")
        return deliveries


def _check_room(segments: Path) -> None:
    """Raise TraceReadError for a file that does not fit in memory, such as one of holes alone."""
    with contextlib.suppress(OSError):
        size = segments.lstat().st_size
        if size > _SMALL_BYTES and size * _COPIES > free_memory_bytes():
            raise TraceReadError(segments, f"needs more memory than is free: it has {size} bytes")


def _valid_json(texts: dict[str, str]) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            value = valid_value(json.loads(text))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            notes[name] = _of_sources(value) if name == SOURCES else value
    return notes


def _of_sources(noted: dict[str, Any]) -> dict[str, Any]:
    """Return the valid notes of sources: fields of a TraceInfo, their job, and the process name."""
    valid = fitting(noted)
    for name, kind in (("job", dict), ("lost", dict), ("process", str)):
        if isinstance(noted.get(name), kind):
            valid[name] = noted[name]
    return valid
