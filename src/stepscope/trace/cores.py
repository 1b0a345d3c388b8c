"""The number of cores that this process may use, and its limits for library threads.

Only ``os`` is imported, since the recorded program's process uses this module, too.
"""

import os

from stepscope.trace.variables import THREAD_VARIABLES

_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUPS = "/proc/self/cgroup"


def parallelism_of_process() -> dict[str, float]:
    """Return the cores, and the variables that limit the threads of libraries.

    ``cores`` is the size of the process's affinity mask or its container's quota, whichever is
    less; it may be a fraction.
    """
    allowed = float(len(os.sched_getaffinity(0)))
    quota = _quota()
    counts = {"machine cores": float(os.cpu_count() or 1), "cores": min(allowed, quota or allowed)}
    for name in THREAD_VARIABLES:
        word = os.environ.get(name, "").partition(",")[0].strip()
        if word.isdecimal():
            counts[name] = float(word)
    return counts


def _quota() -> float | None:
    """Return the CPU quota of the process's control groups in cores; None for no limit."""
    limits = []
    for folder in own_groups():
        of_version_2 = small_text(f"{folder}/cpu.max")
        of_version_1 = small_text(f"{folder}/cpu.cfs_quota_us")
        period = small_text(f"{folder}/cpu.cfs_period_us") if of_version_1 else ""
        for words in (of_version_2.split(), f"{of_version_1} {period}".split()):
            if len(words) == 2 and all(map(str.isdecimal, words)) and int(words[1]):
                limits.append(int(words[0]) / int(words[1]))
    return min(limits, default=None)


def own_groups(controller: str = "cpu") -> list[str]:
    """Return the folders of the process's control groups and their parents, of both versions."""
    folders = [str(_CGROUPS), f"{_CGROUPS}/{controller}"]
    for line in small_text(_OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        folder = f"{_CGROUPS}/{controller}" if controllers else str(_CGROUPS)
        for name in filter(None, path.split("/")):
            folder = f"{folder}/{name}"
            folders.append(folder)
    return folders


def small_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a small kernel file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("ascii")
    except (OSError, ValueError):
        return ""
