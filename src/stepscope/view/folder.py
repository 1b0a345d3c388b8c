"""Finds the complete traces of a folder, by name and by their first bytes, within bounds.

Links are not followed, so nothing outside of the folder is ever opened.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import TraceReadError
from stepscope.formats.base.gzip import inflated_head
from stepscope.formats.base.registry import format_of
from stepscope.record.stream.places import UNSEALED
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.store import is_stored_trace
from stepscope.trace.tables import FILES
from stepscope.view.growing import is_recording

MAX_DEPTH = 5  # folders below the one that is shown
MAX_ENTRIES = 20_000  # entries scanned, of any kind
MAX_TRACES = 500

# Profilers' names for files: results include other databases and pickles.
_BINARY = (".pb", ".pftrace", ".sqlite", "_results.db", ".rpd", ".pickle", ".csv")
_SUFFIXES = (".json", ".json.gz", ".pickle.gz", ".pb.gz", ".pftrace.gz", *_BINARY)
_NEVER_TRACES = frozenset({"__pycache__", "node_modules", "site-packages"})
_SECOND_NS = 1_000_000_000
# A writer that has been silent for so long has ended, ...
_SILENT_NS = 2 * _SECOND_NS
# ... and an incomplete file stays incomplete.
_GIVEN_UP_NS = 60 * _SECOND_NS
_TAIL_BYTES = 256
_HEAD_BYTES = 64 << 10  # torch's metadata is before the events
_SIGNS_OF_EVENTS = (b'"traceEvents"', b'"ph"')


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace on disk; another size or time makes it another trace."""

    name: str  # its path below the folder, with slashes
    written_ns: int  # Unix time
    size: int  # bytes
    is_recording: bool = False  # a program writes it now, so its size is meaningless


class Listing(NamedTuple):
    traces: tuple[TraceFile, ...]
    left_out: str = ""  # why some may be missing


class Folder:
    """A folder that is scanned repeatedly; known files are not read again."""

    def __init__(self, root: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        """The clock ``now_ns`` returns Unix time."""
        self.root = root.resolve(strict=True)
        self._now_ns = now_ns
        self._is_trace: dict[TraceFile, bool] = {}

    def listing(self) -> Listing:
        """Return all complete traces, and those that are being recorded."""
        entries = _Entries(self.root)
        seen = {file: path for path, file in filter(None, map(self._candidate, entries))}
        is_trace_file = self._is_trace
        self._is_trace = {
            file: is_trace_file[file] if file in is_trace_file else _looks_like_a_trace(path)
            for file, path in seen.items()
        }
        traces = [file for file, is_trace in self._is_trace.items() if is_trace]
        traces.sort(key=lambda file: (-file.written_ns, file.name))
        left_out = entries.left_out
        if len(traces) > MAX_TRACES:
            left_out = f"only the newest {MAX_TRACES:,} of {len(traces):,} traces are shown"
        return Listing(tuple(traces[:MAX_TRACES]), left_out)

    def path_of(self, listed: TraceFile) -> Path:
        """Return the path of a listed trace; TraceReadError if it no longer exists.

        The path is checked again, since a part of it may have become a link after the scan.
        """
        path = self.root / listed.name
        try:
            inside = path.resolve(strict=True) == path
        except OSError:
            inside = False
        if not inside or _stamped(self.root, path) != listed:
            raise TraceReadError(listed.name, "was changed or removed", "reload the list")
        return path

    def _candidate(self, entry: os.DirEntry[str]) -> tuple[Path, TraceFile] | None:
        path = Path(entry.path)
        stamped = _stamped(self.root, path) if _may_be_a_trace(entry) else None
        if stamped is None or not self._is_whole(path, stamped):
            return None
        return path, stamped

    def _is_whole(self, path: Path, candidate: TraceFile) -> bool:
        # A future time (from another machine's clock) tells nothing about the writer.
        silent_ns = abs(self._now_ns() - candidate.written_ns)
        if candidate.is_recording:
            return True
        if path.name.endswith(TRACE_SUFFIX):
            return silent_ns >= _GIVEN_UP_NS or _has_all_tables(path)
        if silent_ns < _SILENT_NS:
            return False
        return silent_ns >= _GIVEN_UP_NS or not path.name.endswith(".json") or _has_its_end(path)


class _Entries:
    """Walks a folder breadth first, not into links, hidden folders or traces, and within bounds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.left_out = ""

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        folders: deque[tuple[str, int]] = deque([(os.fspath(self._root), 0)])
        looked_at = 0
        while folders:
            folder, depth = folders.popleft()
            for entry in _sorted_entries(folder):
                looked_at += 1
                if looked_at > MAX_ENTRIES:
                    self.left_out = f"only the first {MAX_ENTRIES:,} names were scanned"
                    return
                if _is_hidden(entry.name) or entry.is_symlink():
                    continue
                yield entry
                if entry.is_dir(follow_symlinks=False) and not entry.name.endswith(TRACE_SUFFIX):
                    if depth < MAX_DEPTH:
                        folders.append((entry.path, depth + 1))
                    else:
                        self.left_out = f"folders below depth {MAX_DEPTH} were not scanned"


def _sorted_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not readable, or gone
        return []


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _NEVER_TRACES


def _may_be_a_trace(entry: os.DirEntry[str]) -> bool:
    name = entry.name.lower()
    if entry.is_dir(follow_symlinks=False):
        return name.endswith(TRACE_SUFFIX)
    return name.endswith(_SUFFIXES) and entry.is_file(follow_symlinks=False)


def _stamped(root: Path, path: Path) -> TraceFile | None:
    """Return the trace's current state; None if it is gone or has anything but plain files."""
    name = path.relative_to(root).as_posix()
    try:
        here = path.lstat()
        if stat.S_ISREG(here.st_mode):
            return TraceFile(name, here.st_mtime_ns, here.st_size)
        if is_recording(path):
            began = (path / UNSEALED).lstat()
            return TraceFile(name, began.st_mtime_ns, 0, is_recording=True)
        parts = [entry.stat(follow_symlinks=False) for entry in os.scandir(path)]
    except OSError:
        return None
    if not all(stat.S_ISREG(part.st_mode) for part in parts):
        return None
    written_ns = max((part.st_mtime_ns for part in parts), default=here.st_mtime_ns)
    return TraceFile(name, written_ns, sum(part.st_size for part in parts))


def _has_all_tables(folder: Path) -> bool:
    """Tell whether a folder is complete: a slow copy may still be writing it."""
    return is_stored_trace(folder) and all((folder / f"{name}.arrow").exists() for name in FILES)


def _has_its_end(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().rstrip()[-1:] in {b"}", b"]"}
    except OSError:
        return False


def _looks_like_a_trace(path: Path) -> bool:
    """Tell whether to list a file: a trace, or one that should be but cannot be read."""
    if path.is_dir():
        return True
    try:
        head = inflated_head(path)
    except TraceReadError:
        return True
    if not head:
        return True
    if path.name.lower().removesuffix(".gz").endswith(_BINARY):
        return format_of(path, head) is not None
    start = head[:_HEAD_BYTES]
    return any(sign in start for sign in _SIGNS_OF_EVENTS)
