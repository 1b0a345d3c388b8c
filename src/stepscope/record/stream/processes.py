"""Which process wrote something, and whether it still goes on."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

_OOM_COUNT = "oom_kill"
_ENDED = "ZX"  # states of a zombie and a dead process
_START_TIME, _STACK_START = 22, 28  # fields of /proc/PID/stat


class ProcessId(NamedTuple):
    """Identifies a process for good, even if its number is reused."""

    pid: int
    start_time: int
    image: int  # start of its stack, which an exec changes; 0: unknown
    boot: str
    namespace: str
    host: str

    @classmethod
    def own(cls) -> ProcessId:
        fields = _fields(os.getpid()) or {}
        return cls(
            os.getpid(),
            int(fields.get(_START_TIME, 0)),
            int(fields.get(_STACK_START, 0)),
            _boot(),
            _namespace(),
            os.uname().nodename,
        )

    def is_alive(self) -> bool:
        """Return whether it still runs the same program; true if that cannot be known."""
        if self.boot != _boot():
            return self.host != os.uname().nodename  # another machine may share the folder
        if self.namespace != _namespace():
            return True
        fields = _fields(self.pid)
        if fields is None or int(fields[_START_TIME]) != self.start_time:
            return False
        image = int(fields[_STACK_START])
        is_same_program = image == self.image or 0 in (image, self.image)  # 0: unknown
        return fields[3] not in _ENDED and is_same_program


def is_running(pid: int) -> bool:
    """Tell whether there is a process of this number that has not ended."""
    fields = _fields(pid)
    return fields is not None and fields[3] not in _ENDED


def _fields(pid: int) -> dict[int, str] | None:
    """Return the words of ``/proc/PID/stat`` by their number in proc(5); None without a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return dict(enumerate(text.rpartition(")")[2].split(), 3))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def killed_for_memory(pid: int) -> int | None:
    """Return how many processes the kernel killed for memory in a process's control group."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                events = Path("/sys/fs/cgroup") / line[3:].lstrip("/") / "memory.events"
                words = events.read_text(encoding="ascii").split()
                return int(words[words.index(_OOM_COUNT) + 1])
    return None
