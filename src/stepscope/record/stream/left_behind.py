"""What one process of a run left in its stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.record.stream.streaming import THREADS

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders


@dataclass(frozen=True)
class LeftBehind:
    """What one process left: its stream, and what it noted of itself."""

    folders: StreamFolders
    pid: int
    native: _native.RecoveredStream
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: StreamFolders, pid: int) -> LeftBehind:
        """Read the files of a process."""
        memory, segments = folders.memory_of(pid), folders.segments_of(pid)
        native = _native.RecoveredStream(str(memory or ""), str(segments))
        return cls(folders, pid, native, _valid_json(native.meta()))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return how the reading went, and when the last sign of life was."""
        return dict(self.native.facts())

    @property
    def thread_names(self) -> dict[int, str]:
        """Return the names of threads by the system's number."""
        return {int(key): str(name) for key, name in self.meta.get(THREADS, {}).items()}


def _valid_json(texts: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found[name] = value
    return found
