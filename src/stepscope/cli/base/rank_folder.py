"""The folder of a run: where each rank's trace goes, and which are there."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.formats.base.registry import suffix_of
from stepscope.record.facts import start_ticks
from stepscope.record.stream.places import is_unsealed
from stepscope.trace import launcher
from stepscope.trace.placing import TRACE_SUFFIX, numbered, shortened
from stepscope.trace.regular_file import entries_of

if TYPE_CHECKING:
    from stepscope.trace.launcher import Place
    from stepscope.trace.model import Trace

_MOST_RUNS = 10_000  # of one name
_RANK = re.compile(r"rank-(\d+)(?:-\d+)?\.")


def rank_name(trace: Trace, suffix: str) -> str:
    """Return the name of a trace in its run folder."""
    if trace.info.rank is None:
        return f"process-{trace.info.pid}{suffix}"
    return f"rank-{trace.info.rank}{suffix}"


def run_folder(output: Path) -> tuple[Path, str]:
    """Return the folder and the suffix of the ranks for what the user gave as ``-o``."""
    suffix = suffix_of(output) if output.suffix else TRACE_SUFFIX
    if suffix == TRACE_SUFFIX:
        return output, TRACE_SUFFIX
    return output.with_name(output.name[: len(output.name) - len(suffix)]), suffix


def default_folder(stem: str, place: Place | None = None) -> Path:
    """Return a folder that all ranks of a run on this host, or with a run's number, agree on."""
    shared = launcher.shared_id()
    if place is not None and place.is_on_many_hosts and shared is not None:
        return _first_without(place.rank, stem, "-" + re.sub(r"[^\w.-]", "_", shared))
    launched_s = _launched_s() if place is not None else time.time()
    rest = time.strftime("-%Y%m%d-%H%M%S", time.localtime(launched_s))
    if place is None:
        return Path(shortened(stem, rest) + rest)
    return _first_without(place.rank, stem, rest)


def _launched_s() -> int:
    """Return the Unix time at which our parent process was started: a launcher's, on one host."""
    return launcher.wall_ns_of_ticks(start_ticks(os.getppid())) // 10**9


def _first_without(rank: int, stem: str, rest: str) -> Path:
    """Return the first folder of the name that has no such rank: an earlier run has the others."""
    base = Path(shortened(stem, rest + "-00000") + rest)
    for number in range(1, _MOST_RUNS):
        path = numbered(base, "", number)
        if not has_rank(path, rank):
            return path
    return base


def has_rank(folder: Path, rank: int) -> bool:
    return any(folder.glob(f"rank-{rank}.*"))


def check_folder(folder: Path, rank: int, *, force: bool) -> None:
    """Raise StepscopeError when a rank could not be saved in a folder that the user gave."""
    if folder.exists() and not folder.is_dir():
        raise StepscopeError(f"{folder} is a file, but a job needs a folder; choose another name")
    if not folder.absolute().parent.is_dir():
        parent = folder.absolute().parent
        raise StepscopeError(f"{folder}: the folder {parent} does not exist; create it")
    if not force and has_rank(folder, rank):
        raise StepscopeError(
            f"{folder} has a trace of rank {rank} already; add --force to replace it, or choose "
            "another name"
        )


def ranks_in(folder: Path) -> dict[int, Path]:
    """Return the traces of ranks that are complete in a run folder, by rank."""
    traces: dict[int, Path] = {}
    for path in entries_of(folder):
        match = _RANK.match(path.name)
        if match is not None and path.suffix != ".html" and not is_unsealed(path):
            traces.setdefault(int(match[1]), path)
    return dict(sorted(traces.items()))
