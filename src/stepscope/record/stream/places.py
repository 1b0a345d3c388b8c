"""The folders of a stream: one in a tmpfs, which outlives the process, and one on disk.

What a file says is data: no path in it is opened, written or removed. The folder in memory lies
below a folder of this user alone, and names the folder on disk by its number in the file system and
by a secret that both share. So a folder on disk that somebody else made, or copied, has no memory,
and nobody seals it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.private_folders import open_private_folder
from stepscope.record.stream.delivery import DELIVERY
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.regular_file import entries_of, read_regular

UNSEALED = "stream.json"
"""The file that a folder has as long as its recording is not sealed."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLAN = "plan"
"""The file that tells the processes of a run how to record; ``record/inside/boot.py`` reads it."""

MEMORY_VARIABLE = "STEPSCOPE_STREAM_MEMORY"
"""A folder of a tmpfs to stream into, or ``off`` to stream to disk alone."""

_FORMAT = "stepscope stream"
_VERSION = 2
_DESCRIPTION_LIMIT_BYTES = 16 << 20
_IN_MEMORY = ("tmpfs", "ramfs")
_RUN = "run-"
_SEGMENTS = ".segments"
_OBSTACLE = ".obstacle"
_OF_A_PROCESS = re.compile(
    r"\d{1,10}(\.\d{1,4})?(\.segments|\.obstacle|-\d{1,4}\.(delivery|part))?", re.ASCII
)
_MOST_OBSTACLES = 100
_BLOCK_BYTES = 4096
_LONGEST_OBSTACLE = 2000
_LARGEST_PID = (1 << 31) - 1
_LARGEST = (1 << 63) - 1
_NUMBERS_OF_OWNER = ("pid", "start_time", "image")


class StreamFolders(NamedTuple):
    """A run's folders; each of its processes has files of its own in both."""

    disk: str
    memory: str  # empty: there is none
    owner: ProcessId
    about: Mapping[str, Any] = {}  # what the process that seals it needs
    is_ours: bool = True  # made by this process, or proven to be this user's by its memory

    @property
    def shared(self) -> str:
        """Return the folder that all processes of the run look for."""
        return self.memory or self.disk

    def memory_of(self, name: str) -> Path:
        """Return the folder of a process's memory; without a tmpfs, a ring has it on disk."""
        return Path(self.shared) / name

    def segments_of(self, name: str) -> Path:
        """Return the file for what does not fit in memory."""
        return Path(self.disk) / f"{name}{_SEGMENTS}"

    def deliveries_of(self, name: str) -> list[Path]:
        """Return the files in which the sources of a process left their events."""
        paths = [path for path in entries_of(Path(self.disk)) if path.suffix == DELIVERY]
        return [path for path in paths if path.name.startswith(f"{name}-")]

    def processes(self) -> list[str]:
        """Return all processes that have files here: their numbers, and of which image of theirs.

        A process that runs another program, by exec, has the files 123 and 123.1.
        """
        names = {path.name for path in entries_of(Path(self.shared))}
        names |= {path.name.removesuffix(_SEGMENTS) for path in entries_of(Path(self.disk))}
        numbers = [
            [int(word) for word in name.split(".")]
            for name in names
            if (match := _OF_A_PROCESS.fullmatch(name)) and not match[2]
        ]
        return [".".join(map(str, words)) for words in sorted(numbers) if words[0] <= _LARGEST_PID]

    def obstacles(self) -> list[str]:
        """Return why some processes were not recorded, as they wrote it."""
        paths = [path for path in entries_of(Path(self.shared)) if path.suffix == _OBSTACLE]
        texts = []
        for path in paths[:_MOST_OBSTACLES]:
            with contextlib.suppress(OSError, ValueError):
                text = read_regular(path, _LONGEST_OBSTACLE, follow_links=False)
                texts.append(text.decode("utf-8", "replace").strip())
        return texts

    def write(self) -> None:
        """Describe the run in both folders."""
        shared = {"format": _FORMAT, "version": _VERSION, "owner": self.owner._asdict()}
        on_disk = {**shared, "about": self.about, "secret": os.urandom(16).hex()}
        in_memory = {**on_disk, "disk": self.disk, "disk_number": _number_of(Path(self.disk))}
        for folder, description in ((self.memory, in_memory), (self.disk, on_disk)):
            if not folder:
                continue
            part = Path(folder) / f".{UNSEALED}"
            with contextlib.suppress(OSError):  # either folder may be missing
                part.write_text(json.dumps(description, indent=1), encoding="utf-8")
                part.replace(Path(folder) / UNSEALED)

    def move_to_disk(self) -> None:
        """Move everything in memory to the disk; on an OSError it stays in memory."""
        for name in self.processes() if self.memory else ():
            folder = Path(self.disk) / name
            folder.mkdir(mode=0o700)
            for file in entries_of(self.memory_of(name)):
                _copy_sparsely(file, folder / file.name)
        self.forget_memory()

    def forget_memory(self) -> None:
        """Remove what lies in memory; a process that still uses it keeps it until it ends."""
        if self.memory and self.is_ours:
            import shutil  # takes long to import: not needed to start a run

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
    """Return the folders of a run from the paths that its own process passed on, or ValueError."""
    try:
        if memory is None:
            raise ValueError("there is no memory")
        owner, about, _ = _description(memory)
    except ValueError:
        owner, about, _ = _description(disk)
    return StreamFolders(str(disk), str(memory or ""), owner, about)


def is_unsealed(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder holds a recording that was never sealed."""
    try:
        return stat.S_ISREG((Path(path) / UNSEALED).lstat().st_mode)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def only_sealer(folder: Path) -> Iterator[bool]:
    """Wait until no other process seals a recording; yield whether it is still unsealed.

    The answer of a run may be sealing it while a user reads it.
    """
    try:
        file = os.open(folder / UNSEALED, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it is gone, or a link that leads elsewhere
        yield False
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield is_unsealed(folder)
    finally:
        os.close(file)


def is_of_stream(path: Path) -> bool:
    """Tell whether a path in the folder of a run belongs to its stream."""
    is_known = path.name in (UNSEALED, f".{UNSEALED}", PLAN)
    return is_known or _OF_A_PROCESS.fullmatch(path.name) is not None


def remove_unsealed(folder: Path) -> None:
    """Remove a stream, and its folder if that holds nothing else."""
    if not is_unsealed(folder):
        return
    for path in filter(is_of_stream, list(folder.iterdir())):
        if path.is_dir():
            import shutil

            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


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
            raise ValueError(f"{UNSEALED} is of {str(description['format'])[:40]!r}")
        if description["version"] != _VERSION:
            version = str(description["version"])[:40]
            raise ValueError(f"{UNSEALED} has version {version!r}, not {_VERSION}")
        owner, about = description["owner"], description["about"]
        for name in ProcessId._fields:
            value: Any = owner[name]
            kind: Any = int if name in _NUMBERS_OF_OWNER else str
            most = _LARGEST_PID if name == "pid" else _LARGEST
            if type(value) is not kind or (kind is int and not 0 <= value <= most):
                raise ValueError(f"{UNSEALED} names a wrong {name}: {str(value)[:40]!r}")
        if not isinstance(about, dict) or not isinstance(description["secret"], str):
            raise ValueError(f"{UNSEALED} describes no run")
        return ProcessId(*map(owner.get, ProcessId._fields)), about, description
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{UNSEALED} cannot be read: {error}") from None


def _copy_sparsely(source: Path, target: Path) -> None:
    """Copy a file without the blocks that hold nothing, which are most of a short recording's."""
    with source.open("rb") as blocks, target.open("xb") as copy:
        while block := blocks.read(_BLOCK_BYTES):
            if block.strip(b"\0"):
                copy.write(block)
            else:
                copy.seek(len(block), os.SEEK_CUR)
        copy.truncate()


def _number_of(folder: Path) -> list[int]:
    """Return the device and inode of a folder, unique while it exists; empty without one."""
    try:
        about = folder.stat()
    except (OSError, ValueError):
        return []
    return [about.st_dev, about.st_ino]


def _memory_folders() -> Iterator[Path]:
    """Yield the folders of runs in memory that only this user can have made."""
    for base in _memory_bases():
        try:
            os.close(open_private_folder(base))
        except OSError:
            continue
        for folder in entries_of(base):
            if folder.name.startswith(_RUN):
                yield folder


def _memory_bases() -> Iterator[Path]:
    """Yield the folders in which the runs of this user have theirs."""
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
    """Return whether a folder is on a file system in memory."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    here = os.path.realpath(folder)
    mount = ("", "")
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        is_below = here == place or here.startswith(place.rstrip("/") + "/")
        if is_below and len(place) >= len(mount[0]):
            mount = (place, kind)
    return mount[1] in _IN_MEMORY and os.access(folder, os.W_OK | os.X_OK)
