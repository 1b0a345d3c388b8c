"""Opens files for reading: only regular ones, and only as much as fits in memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from stepscope.trace.cores import own_groups, small_text
from stepscope.units import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_MEMORY = Path("/proc/meminfo")
_OWN_MEMORY = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = True) -> BinaryIO:
    """Open a file for reading; OSError at once for a pipe or a device, which may never end."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links:
            raise OSError(errno.ELOOP, "it is a link, which is not followed") from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = next((kind for matches, kind in _KINDS if matches(mode)), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(
    path: str | os.PathLike[str], limit_bytes: int, *, follow_links: bool = True
) -> bytes:
    """Return the bytes of a regular file; OSError if it is larger than the limit."""
    with open_regular(path, follow_links=follow_links) as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {size_text(limit_bytes)}, the limit")
    return data


def entries_of(folder: Path) -> list[Path]:
    """Return a folder's entries by name, without links; none if it is no folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if not entry.is_symlink())
    except OSError:
        return []


def free_memory_bytes() -> int:
    """Return how much memory this process can still take, on its machine or container."""
    return max(min(_limits(), default=1 << 62), 0)


def own_memory_bytes() -> int:
    """Return how much memory this process uses."""
    words = small_text(_OWN_MEMORY).split()
    return int(words[1]) * _PAGE_BYTES if len(words) > 1 else 0


def _limits() -> Iterator[int]:
    for line in small_text(_MEMORY).splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) << 10
    for folder in map(Path, own_groups("memory")):
        for most, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, taken = (small_text(folder / most).strip(), small_text(folder / used).strip())
            if limit.isdecimal() and taken.isdecimal():
                # The page cache of the group's files is freed on demand.
                yield int(limit) - int(taken) + _cached_bytes(folder)
    address_space = _address_space_limit()
    if address_space is not None:
        yield address_space


def _cached_bytes(folder: Path) -> int:
    for line in small_text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in {"inactive_file", "total_inactive_file"} and value.isdecimal():
            return int(value)
    return 0


def _address_space_limit() -> int | None:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    words = small_text(_OWN_MEMORY).split()
    if limit == resource.RLIM_INFINITY or not words:
        return None
    return limit - int(words[0]) * _PAGE_BYTES
