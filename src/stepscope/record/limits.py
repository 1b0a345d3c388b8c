"""How much memory a recording may take, and what is dropped when it needs more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stepscope.arguments import shown, whole

_SMALLEST_BYTES = 64 * 1024


class Keep(Enum):
    """Which events are kept when the limit is reached."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A bound on the recorder's buffers. Dropped events are counted, and every total says so."""

    bytes: int
    keep: Keep = Keep.OLDEST

    def __post_init__(self) -> None:
        """Reject a bound that is no number, or too small to hold anything."""
        whole("bytes", self.bytes, "such as 512 << 20 for 512 MiB")
        if not isinstance(self.keep, Keep):
            raise TypeError(f"keep={shown(self.keep)}: give Keep.OLDEST or Keep.NEWEST")
        if self.bytes < _SMALLEST_BYTES:
            raise ValueError(
                f"a memory limit of {self.bytes} bytes is too small: "
                f"give at least {_SMALLEST_BYTES} bytes (an event takes 56)"
            )
