"""Executors that reduce the ranks: processes of this machine, or anything with a ``map``.

``open_job(folder, executor=...)`` takes

- nothing: as many processes as there are cores, each of which reads one rank at a time;
- an executor of ``concurrent.futures``, a pool of ``multiprocessing``, ``ray.util.multiprocessing``
  or MPI, or anything else whose ``map(function, items)`` returns the results in order;
- a Dask ``Client``, whose ``map`` returns futures that it gathers;
- the module ``ray``, or anything else that has ``remote``, ``get`` and ``wait``.

Workers receive paths and return summaries, so they must see the same files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.job.collectives import Kind
from stepscope.job.exposed_sums import Overlap
from stepscope.job.summary import RankSummary, summarize
from stepscope.job.work import StepRows, StepWork
from stepscope.trace.plain import unpacked

SMALL_BYTES = 8 << 20
"""Smaller jobs are read in this process, since starting others would take longer."""

_IN_FLIGHT = 64  # concurrent tasks of Ray


def reduced_by(
    executor: Any, paths: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> Iterator[RankSummary]:
    tell = progress or (lambda _done, _all: None)
    for done, summary in enumerate(_mapped(executor, paths), 1):
        tell(done, len(paths))
        yield summary


def _mapped(executor: Any, paths: Sequence[str]) -> Iterator[RankSummary]:
    if executor is None:
        workers = min(os.cpu_count() or 1, len(paths))
        is_small = sum(map(_size, paths)) < SMALL_BYTES
        return map(summarize, paths) if workers < 2 or is_small else _processes(paths, workers)
    if hasattr(executor, "gather") and hasattr(executor, "map"):
        return _dask(executor, paths)
    if all(hasattr(executor, name) for name in ("remote", "get", "wait")):
        return _ray(executor, paths)
    if hasattr(executor, "imap"):
        return iter(executor.imap(summarize, paths))
    if hasattr(executor, "map"):
        return iter(executor.map(summarize, paths))
    raise StepscopeError(
        f"executor={shown(executor)} has no map(function, items); give an executor of "
        "concurrent.futures, a Dask Client, the module ray, or leave it out"
    )


def _dask(client: Any, paths: Sequence[str]) -> Iterator[RankSummary]:
    # Not pure: a file may have changed since a worker last read it.
    futures = client.map(summarize, list(paths), pure=False)
    while futures:
        some, futures = futures[:_IN_FLIGHT], futures[_IN_FLIGHT:]
        yield from client.gather(some)


def _ray(ray: Any, paths: Sequence[str]) -> Iterator[RankSummary]:
    task = ray.remote(summarize)
    waiting = [task.remote(path) for path in paths[:_IN_FLIGHT]]
    for path in [*paths[_IN_FLIGHT:], *[None] * _IN_FLIGHT]:
        if not waiting:
            return
        yield ray.get(waiting.pop(0))
        if path is not None:
            waiting.append(task.remote(path))


def _size(path: str) -> int:
    here = Path(path)
    try:
        if here.is_dir():
            return sum(entry.stat().st_size for entry in here.iterdir())
        return here.stat().st_size
    except OSError:
        return 0


def _processes(paths: Sequence[str], workers: int) -> Iterator[RankSummary]:
    """Map over child processes of our own.

    ``multiprocessing`` would import the program's main module again in each, and forking is not
    safe beside the threads that it may have.
    """
    jobs: SimpleQueue[int | None] = SimpleQueue()
    for i in range(len(paths)):
        jobs.put(i)
    done: SimpleQueue[tuple[int, RankSummary]] = SimpleQueue()
    for _ in range(workers):
        jobs.put(None)
        threading.Thread(target=_feed, args=(paths, jobs, done), daemon=True).start()
    early: dict[int, RankSummary] = {}
    for i in range(len(paths)):
        while i not in early:
            at, summary = done.get()
            early[at] = summary
        yield early.pop(i)


def _feed(paths: Sequence[str], jobs: SimpleQueue[Any], done: SimpleQueue[Any]) -> None:
    """Have one process reduce path after path; if it dies, only its current path is lost."""
    child: subprocess.Popen[bytes] | None = None
    while (at := jobs.get()) is not None:
        child = child if child is not None and child.poll() is None else _child()
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(paths[at]).encode() + b"\n")
            child.stdin.flush()
            done.put((at, _receive(child.stdout)))
        except (OSError, ValueError):
            child.wait()
            reason = f"ended the process that read it (exit status {child.returncode})"
            done.put((at, RankSummary(paths[at], problem=reason)))
    if child is not None:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


def _child() -> subprocess.Popen[bytes]:
    """Start a process that imports the same Stepscope, with one thread."""
    source = str(Path(__file__).parents[2])
    threads = dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    code = (
        f"import sys; sys.path.insert(0, {source!r}); "
        "from stepscope.job.worker import serve; serve()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **threads},
    )


def _receive(pipe: BinaryIO | Any) -> RankSummary:
    """Read a summary after its length; ValueError if the process has ended."""
    data = pipe.read(int(pipe.readline()))
    summary: RankSummary = unpacked(data, (RankSummary, Kind, Overlap, StepWork, StepRows))
    return summary
