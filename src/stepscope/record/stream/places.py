"""Where a stream lies: a folder of a tmpfs, whose files need no saving, and one on disk.

What a file says is data: no path in it is opened, written or removed. The folder in memory lies
below a folder of this user alone, and names the folder on disk by its number in the file system and
by a secret that both share. So a folder on disk that somebody else made, or copied, has no memory,
and nobody seals it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.private_folders import open_private_folder
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.regular_file import read_regular

UNSEALED = "stream.json"
"""The file that a folder has as long as its recording is not sealed."""

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY_VARIABLE = "STEPSCOPE_STREAM_MEMORY"
"""A folder of a tmpfs to stream into, or ``off`` to stream to disk alone."""

_FORMAT = "stepscope stream"
_VERSION = 2
_DESCRIPTION_LIMIT_BYTES = 16 << 20
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
    is_ours: bool = True  # this process made it, or its memory proves that this user did
    secret: str = field(default_factory=lambda: os.urandom(16).hex())

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
        """Return all processes that have files here, the run's own first."""
        names = {path.name for path in _entries(self.memory)}
        names |= {path.stem for path in _entries(self.disk) if path.suffix == _SEGMENTS}
        numbers = {int(name) for name in names if name.isascii() and name.isdecimal()}
        return [self.owner.pid, *sorted(numbers - {self.owner.pid})]

    def write(self) -> None:
        """Describe the run in both folders."""
        shared = {"format": _FORMAT, "version": _VERSION, "owner": asdict(self.owner)}
        on_disk = {**shared, "about": self.about, "secret": self.secret}
        in_memory = {**on_disk, "disk": self.disk, "disk_number": _number_of(Path(self.disk))}
        for folder, description in ((self.memory, in_memory), (self.disk, on_disk)):
            if not folder:
                continue
            part = Path(folder) / f".{UNSEALED}"
            with contextlib.suppress(OSError):  # whichever of the two there is
                part.write_text(json.dumps(description, indent=1), encoding="utf-8")
                part.replace(Path(folder) / UNSEALED)

    def forget_memory(self) -> None:
        """Remove what lies in memory; a process that still uses it keeps it until it ends."""
        if self.memory and self.is_ours:
            shutil.rmtree(self.memory, ignore_errors=True)


def read_folders(folder: Path) -> StreamFolders:
    """Return the folders of a run, given the one on disk; ValueError when it is none of a stream.

    Its memory is the folder of this user that names it; the files on disk do not say where it is.
    """
    owner, about, claims = _description(folder)
    number = _number_of(folder)
    for memory in _memory_folders():
        with contextlib.suppress(ValueError):
            true_owner, true_about, facts = _description(memory)
            is_same = number and facts.get("disk_number") == number
            if is_same and facts["secret"] == claims["secret"]:
                return StreamFolders(str(folder), str(memory), true_owner, true_about)
    return StreamFolders(str(folder), "", owner, about, is_ours=False)


def own_folders(disk: Path, memory: Path | None) -> StreamFolders:
    """Return the folders of a run whose paths its own process has passed on; ValueError without."""
    try:
        if memory is None:
            raise ValueError("there is no memory")
        owner, about, _ = _description(memory)
    except ValueError:
        owner, about, _ = _description(disk)
    return StreamFolders(str(disk), str(memory or ""), owner, about)


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
    for folder in _memory_folders():
        with contextlib.suppress(ValueError):
            owner, about, facts = _description(folder)
            disk = facts.get("disk")
            if isinstance(disk, str):
                is_there = _number_of(Path(disk)) == facts.get("disk_number")
                yield StreamFolders(disk if is_there else "", str(folder), owner, about)


def _description(folder: Path) -> tuple[ProcessId, dict[str, Any], dict[str, Any]]:
    """Return the owner, what was noted about the run, and all else that a folder's file says."""
    try:
        text = read_regular(folder / UNSEALED, _DESCRIPTION_LIMIT_BYTES, follow_links=False)
        description = json.loads(text)
        if description["format"] != _FORMAT:
            raise ValueError(f"{UNSEALED} is of {description['format']!r}")
        if description["version"] != _VERSION:
            raise ValueError(f"{UNSEALED} has version {description['version']!r}, not {_VERSION}")
        owner, about = description["owner"], description["about"]
        for each in fields(ProcessId):
            is_number = each.type == "int"
            if type(owner[each.name]) is not (int if is_number else str):
                raise ValueError(f"{UNSEALED} names a wrong {each.name}: {owner[each.name]!r}")
        if not isinstance(about, dict) or not isinstance(description["secret"], str):
            raise ValueError(f"{UNSEALED} describes no run")
        names = [each.name for each in fields(ProcessId)]
        return ProcessId(**{name: owner[name] for name in names}), about, description
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{UNSEALED} cannot be read: {error}") from None


def _number_of(folder: Path) -> list[int]:
    """Return what no other folder of this machine has at the same time; empty without a folder."""
    try:
        about = folder.stat()
    except (OSError, ValueError):
        return []
    return [about.st_dev, about.st_ino]


def _memory_folders() -> Iterator[Path]:
    """Yield the folders of runs in memory that nobody but this user can have made."""
    for base in _memory_bases():
        try:
            os.close(open_private_folder(base))
        except OSError:
            continue
        for folder in _entries(str(base)):
            if folder.name.startswith(_RUN) and not folder.is_symlink():
                yield folder


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


def _entries(folder: str) -> list[Path]:
    try:
        return sorted(Path(folder).iterdir()) if folder else []
    except OSError:
        return []
