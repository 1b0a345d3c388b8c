"""Where a stream lies: a folder of a tmpfs, whose files need no saving, and one on disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.private_folders import open_private_folder
from stepscope.record.stream.processes import ProcessId

UNSEALED = "stream.json"
"""The file that a folder has as long as its recording is not sealed."""

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY_VARIABLE = "STEPSCOPE_STREAM_MEMORY"
"""A folder of a tmpfs to stream into, or ``off`` to stream to disk alone."""

_FORMAT = "stepscope stream"
_VERSION = 1
_IN_MEMORY = ("tmpfs", "ramfs")
_RUN = "run-"
_SEGMENTS = ".segments"
_CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class StreamFolders:
    """A run's folders; each of its processes has files of its own in both."""

    disk: str
    memory: str  # empty: there is none
    owner: ProcessId
    about: dict[str, Any] = field(default_factory=dict)  # what whoever seals it must know

    def memory_of(self, pid: int) -> Path | None:
        """Return where a process has its memory."""
        return Path(self.memory) / str(pid) if self.memory else None

    def segments_of(self, pid: int) -> Path:
        """Return where a process writes what has no room in memory."""
        return Path(self.disk) / f"{pid}{_SEGMENTS}"

    def captures(self) -> Path:
        """Return where child processes deliver what they have recorded, in a folder a parent."""
        return Path(self.memory or self.disk) / _CHILDREN

    def processes(self) -> list[int]:
        """Return all processes that left something, the run's own first."""
        names = {path.name for path in _entries(self.memory)}
        names |= {path.stem for path in _entries(self.disk) if path.suffix == _SEGMENTS}
        numbers = {int(name) for name in names if name.isdecimal()}
        return [self.owner.pid, *sorted(numbers - {self.owner.pid})]

    def write(self) -> None:
        """Describe the run in both folders, so that each leads to the other."""
        told = json.dumps({"format": _FORMAT, "version": _VERSION, **asdict(self)}, indent=1)
        for folder in filter(None, (self.memory, self.disk)):
            part = Path(folder) / f".{UNSEALED}"
            with contextlib.suppress(OSError):  # whichever of the two there is
                part.write_text(told, encoding="utf-8")
                part.replace(Path(folder) / UNSEALED)

    def forget_memory(self) -> None:
        """Remove what lies in memory; a process that still uses it keeps it until it ends."""
        if self.memory and Path(self.memory).name.startswith(_RUN):
            shutil.rmtree(self.memory, ignore_errors=True)


def read_folders(folder: Path) -> StreamFolders:
    """Return the folders of a run, found from either; ValueError when it is none of a stream."""
    try:
        told = json.loads((folder / UNSEALED).read_text(encoding="utf-8"))
        if told["format"] != _FORMAT:
            raise ValueError(f"{UNSEALED} is of {told['format']!r}")
        if told["version"] != _VERSION:
            raise ValueError(f"{UNSEALED} has version {told['version']!r}, not {_VERSION}")
        folders = StreamFolders(
            str(told["disk"]),
            str(told["memory"]),
            ProcessId(**told["owner"]),
            dict(told["about"]),
        )
    except (OSError, KeyError, TypeError) as error:
        raise ValueError(f"{UNSEALED} cannot be read: {error}") from None
    if not _is_own_memory(folders.memory):
        return StreamFolders(str(folder), "", folders.owner, folders.about)
    if str(folder) == folders.memory:
        return folders
    return StreamFolders(str(folder), folders.memory, folders.owner, folders.about)  # it was moved


def is_unsealed(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder holds a recording that was never sealed."""
    return (Path(path) / UNSEALED).is_file()


def is_of_stream(path: Path) -> bool:
    """Tell whether a path in the folder of a run belongs to its stream."""
    return path.suffix == _SEGMENTS or path.name in (UNSEALED, f".{UNSEALED}", _CHILDREN)


def new_memory_folder() -> Path | None:
    """Make the folder of a run in a tmpfs; None where there is none that is ours alone."""
    for base in _memory_bases():
        folder = base / f"{_RUN}{os.urandom(6).hex()}"
        try:
            os.close(open_private_folder(base, create=True))
            folder.mkdir(mode=0o700)
        except OSError:
            continue
        return folder
    return None


def streams_in_memory() -> Iterator[StreamFolders]:
    """Yield the runs of this user that have something in memory."""
    for base in _memory_bases():
        for folder in _entries(str(base)):
            if folder.name.startswith(_RUN):
                with contextlib.suppress(ValueError):
                    yield read_folders(folder)


def _memory_bases() -> Iterator[Path]:
    """Yield where runs of this user have their folders."""
    chosen = os.environ.get(MEMORY_VARIABLE)
    if chosen == "off":
        return
    own = f"stepscope-{os.getuid()}"
    if chosen:
        yield Path(chosen) / own
        return
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        if folder and _is_in_memory(Path(folder)):
            yield Path(folder) / own


def _is_in_memory(folder: Path) -> bool:
    """Tell whether a folder is on a file system that is memory."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    here = os.path.realpath(folder)
    found = ("", "")
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        is_below = here == place or here.startswith(place.rstrip("/") + "/")
        if is_below and len(place) >= len(found[0]):
            found = (place, kind)
    return found[1] in _IN_MEMORY and os.access(folder, os.W_OK | os.X_OK)


def _is_own_memory(memory: str) -> bool:
    """Tell whether a folder that a file names is one of ours: what is in it is unpickled."""
    if not memory:
        return True
    path = Path(memory)
    try:
        os.close(open_private_folder(path))
    except OSError:
        return False
    return path.name.startswith(_RUN)


def _entries(folder: str) -> list[Path]:
    try:
        return sorted(Path(folder).iterdir()) if folder else []
    except OSError:
        return []
