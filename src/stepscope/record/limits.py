"""How much memory a recording may take, and what is dropped when it needs more."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypedDict

from stepscope.arguments import number, shown, whole

RECORD_BYTES = 64  # size of an event while it is recorded: native/include/stepscope/record.h

_SMALLEST_BYTES = 64 * 1024
_RING_BYTES = 2 << 30  # for a ring that is limited in seconds only


class Keep(Enum):
    """Which events are kept when the limit is reached."""

    OLDEST = "oldest"
    NEWEST = "newest"


class _MemoryLimit(NamedTuple):
    bytes: int
    keep: Keep
    is_ring: bool  # set by a Last: the trace begins where it is complete
    seconds: float  # length of a ring; 0: as much as fits


class MemoryLimit(_MemoryLimit):
    """A bound on the recorder's buffers. Dropped events are counted, and every total says so."""

    __slots__ = ()

    def __new__(
        cls, bytes: int, keep: Keep = Keep.OLDEST, is_ring: bool = False, seconds: float = 0.0
    ) -> MemoryLimit:
        whole("bytes", bytes, "such as 512 << 20 for 512 MiB")
        if not isinstance(keep, Keep):
            raise TypeError(f"keep={shown(keep)}: give Keep.OLDEST or Keep.NEWEST")
        if bytes < _SMALLEST_BYTES:
            raise ValueError(
                f"a memory limit of {bytes} bytes is too small: "
                f"give at least {_SMALLEST_BYTES} bytes (an event takes {RECORD_BYTES})"
            )
        return super().__new__(cls, bytes, keep, is_ring, seconds)


class NativeLimit(TypedDict):
    """A limit as what records natively takes it."""

    limit_bytes: int  # 0: none
    keep_newest: bool
    age_ns: int  # 0: as much as fits


def native_limit(limit: MemoryLimit | None) -> NativeLimit:
    """Return a limit, or that there is none, for what records natively."""
    if limit is None:
        return {"limit_bytes": 0, "keep_newest": False, "age_ns": 0}
    return {
        "limit_bytes": limit.bytes,
        "keep_newest": limit.keep is Keep.NEWEST,
        "age_ns": int(limit.seconds * 1e9),
    }


class _Last(NamedTuple):
    seconds: float | None
    bytes: int | None


class Last(_Last):
    """What a recording that never ends keeps: the last seconds, the last bytes, or the fewer.

    What is dropped is counted: ``trace.info.losses``. With seconds only, the limit is 2 GiB.
    """

    __slots__ = ()

    def __new__(cls, seconds: float | None = None, bytes: int | None = None) -> Last:
        if seconds is None and bytes is None:
            raise TypeError("Last() keeps nothing: give Last(seconds=60) or Last(bytes=200 << 20)")
        if seconds is not None:
            number("seconds", seconds, "a number of seconds, such as 60")
            if not 0 < seconds < float("inf"):
                raise ValueError(f"seconds={shown(seconds)}: give more than 0, such as 60")
        return super().__new__(cls, seconds, bytes)

    def limit(self, most: MemoryLimit | None = None) -> MemoryLimit:
        """Return the bound on the buffers; ``most`` is another bound, and the smaller one holds."""
        sizes = [self.bytes, most.bytes if most is not None else None]
        size = min((size for size in sizes if size is not None), default=_RING_BYTES)
        return MemoryLimit(size, Keep.NEWEST, is_ring=True, seconds=float(self.seconds or 0))
