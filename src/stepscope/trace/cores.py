"""How many cores this process may use, and how many threads it was told to use."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def parallelism_of_process() -> dict[str, float]:
    """Return the cores, and the variables that say how many threads libraries are to use.

    ``cores`` are those that the process may run on, less where a container's quota gives it less:
    half a core is half a core.
    """
    allowed = float(len(os.sched_getaffinity(0)))
    quota = _quota()
    found = {"machine cores": float(os.cpu_count() or 1), "cores": min(allowed, quota or allowed)}
    for name in _VARIABLES:
        word = os.environ.get(name, "").partition(",")[0].strip()
        if word.isdecimal():
            found[name] = float(word)
    return found


def _quota() -> float | None:
    """Return how many cores the process's control groups leave it; None for no limit."""
    limits = []
    for folder in own_groups():
        of_version_2 = small_text(folder / "cpu.max")
        of_version_1 = small_text(folder / "cpu.cfs_quota_us")
        period = small_text(folder / "cpu.cfs_period_us")
        for words in (of_version_2.split(), f"{of_version_1} {period}".split()):
            if len(words) == 2 and all(map(str.isdecimal, words)) and int(words[1]):
                limits.append(int(words[0]) / int(words[1]))
    return min(limits, default=None)


def own_groups(controller: str = "cpu") -> list[Path]:
    """Return the folders of the process's groups and of those around them, of both versions."""
    folders = [_CGROUPS, _CGROUPS / controller]
    for line in small_text(_OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUPS / controller if controllers else _CGROUPS
        group = Path(path.lstrip("/"))
        folders += [root / each for each in (group, *group.parents)]
    return folders


def small_text(path: Path) -> str:
    """Return what is in a small file of the kernel's; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
