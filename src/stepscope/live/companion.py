"""The companion of a run: it answers requests about the run, and has captures written.

It follows the streams of the run's processes, which do not know it. Each capture is read and
written by another process, so that the companion stays small.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.formats.base.registry import suffix_of
from stepscope.live.captures import free_path, with_rank
from stepscope.live.requests import (
    RequestError,
    asked_path,
    checked_options,
    checked_seconds,
    last_steps,
)
from stepscope.live.server import ControlServer
from stepscope.live.steps import STEP_NAMES, StepWatch
from stepscope.live.triggers import LOOK_EVERY_S, Triggers, TriggerWatch, resident_bytes
from stepscope.notices import notify
from stepscope.record.facts import start_ticks
from stepscope.record.inside.boot import read_plan
from stepscope.record.options import RecordOptions
from stepscope.record.read_back.relations import RunProcess, ancestors
from stepscope.record.source import known_options
from stepscope.record.stream.notes import END, FACTS, FAILURES
from stepscope.record.stream.places import StreamFolders, own_folders
from stepscope.record.stream.processes import is_running
from stepscope.trace.launcher import job_name, wall_ns_of_ticks

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders

_INTERRUPTED = "KeyboardInterrupt"


class Followed(RunProcess):
    """One process of a run, as of the last read of its stream."""

    def __init__(self, folders: StreamFolders, name: str) -> None:
        self.pid = int(name.partition(".")[0])
        memory, segments = str(folders.memory_of(name)), str(folders.segments_of(name))
        self._follower = _native.StreamFollower(memory, segments, STEP_NAMES)
        self._failures_returned = 0
        self.steps = StepWatch(self._follower.new_ranges)

    @property
    def is_alive(self) -> bool:
        """Return whether it still records."""
        return not self._follower.is_closed and is_running(self.pid)

    @property
    def memory_bytes(self) -> int:
        return resident_bytes(self.pid)

    @cached_property
    def since_s(self) -> float:
        """Return the Unix time at which the process started."""
        return wall_ns_of_ticks(start_ticks(self.pid)) / 1e9

    def status(self, program: str) -> dict[str, Any]:
        """Return the fields of `stepscope ps`; ``program`` is the run's name."""
        facts, place = self.noted(FACTS), self.place
        words = [str(word) for word in facts.get("argv", ())][1:]
        return {
            "pid": self.pid,
            "rank": "" if place["rank"] is None else str(place["rank"]),
            "world_size": "" if place["rank"] is None else str(place["world_size"]),
            "program": " ".join([program, *words])[:200],
            "job": job_name(facts.get("environment", {})),
            "since": self.since_s,
            "memory_bytes": self.memory_bytes,
            "python": next(iter(str(facts.get("python", "")).split()), ""),
        }

    def new_failures(self) -> list[str]:
        """Return the uncaught exceptions since the last call."""
        failures = [str(line) for line in self.noted(FAILURES).get("lines", ())]
        last = str(self.noted(END).get("error", ""))
        if last and not last.startswith(_INTERRUPTED):
            failures.append(last)
        new, self._failures_returned = failures[self._failures_returned :], len(failures)
        return new

    def noted(self, name: str) -> dict[str, Any]:
        value = json.loads(self._follower.notes.get(name, "{}"))
        return value if isinstance(value, dict) else {}


_OWNER_LOOK_S = 1.0  # between looks for the end of the run; SIGTERM tells it, too
_MAX_WRITERS = 4  # each needs memory for the streams it reads
_WRITER = "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
_WRITER += "from stepscope.live.writer import main; main()"


def main() -> None:
    """Take the folders on disk and in memory, and follow the run until SIGTERM comes."""
    disk, memory = sys.argv[1:]
    try:
        companion = Companion(own_folders(Path(disk), Path(memory) if memory else None))
    except (OSError, ValueError):
        return  # the run is over, and its folders are gone
    companion.run()


class Companion:
    """Follows one run from its start to its end."""

    def __init__(self, folders: StreamFolders) -> None:
        about, plan = folders.about, read_plan(folders.shared)
        self._folders = folders
        self._triggers = Triggers(**about["triggers"]).within_ring(float(plan["seconds"]))
        self._recording = "ring" if plan["is_ring"] == "1" else "all"
        self._recorded = RecordOptions(**json.loads(plan["options"]))
        self._is_rank = about["job"]["place"] is not None
        self._output = Path(about["output"])
        self._processes: dict[str, Followed] = {}  # by name of their files
        self._watches: dict[int, TriggerWatch] = {}  # by the process of the rank; 0: the whole run
        self._reading = threading.Lock()  # this thread, and those that answer
        self._has_ended = threading.Event()
        self._writers = ThreadPoolExecutor(_MAX_WRITERS, "stepscope capture")
        requests = {"status": self._status, "steps": self._steps, "capture": self._capture}
        self._server = ControlServer(requests) if plan["control"] == "1" else None

    def run(self) -> None:
        """Follow the run to its end, and write the captures that still wait then."""
        if self._server is not None:
            self._server.open()
        while self._goes_on():
            self._attempt(self._look)
        self._has_ended.set()
        self._attempt(partial(self._look, is_last=True))
        if self._server is not None:
            self._server.close()
            self._server.wait()
        self._writers.shutdown()

    def _goes_on(self) -> bool:
        """Wait for the next look; return whether the program still runs."""
        number = self._triggers.on_signal
        signals = {signal.SIGTERM, number} if number is not None else {signal.SIGTERM}
        came = signal.sigtimedwait(signals, LOOK_EVERY_S if self._triggers else _OWNER_LOOK_S)
        if came is not None and came.si_signo == number:
            self._attempt(partial(self._fire_in_all, signal.Signals(number).name))
            return True
        return came is None and self._folders.owner.is_alive()

    def _fire_in_all(self, name: str) -> None:
        for program, _ in self._programs():
            self._watch_of(self._rank_above(program)).fire("signal", name)

    def _attempt(self, move: Callable[[], object]) -> None:
        try:
            with self._reading:
                move()
        except Exception as error:  # an error of ours, which does not concern the program
            notify(f"captures may be missing: {type(error).__name__}: {error}")

    def _look(self, *, is_last: bool = False) -> None:
        if not self._triggers:
            return
        groups: dict[TriggerWatch, list[Followed]] = {}
        for process in self._read():
            groups.setdefault(self._watch_of(self._rank_above(process)), []).append(process)
        for watch, group in groups.items():
            watch.look_at_memory(max(process.memory_bytes for process in group))
            for process in group:
                watch.look_at_steps(process.steps)
                if self._triggers.on_exception:
                    for failure in process.new_failures():
                        watch.fire("exception", failure)
            watch.capture_waiting(now=is_last)

    def _watch_of(self, rank: Followed | None) -> TriggerWatch:
        pid = 0 if rank is None else rank.pid
        if pid not in self._watches:
            self._watches[pid] = TriggerWatch(self._triggers, partial(self._write_in_turn, rank))
        return self._watches[pid]

    # ---- the processes of the run

    def _read(self) -> list[Followed]:
        """Return all processes that have recorded something, with their streams read."""
        for name in self._folders.processes():
            if name not in self._processes:
                self._processes[name] = Followed(self._folders, name)
        processes = list(self._processes.values())
        for process in processes:
            process.steps.read()
        return processes

    def _rank_above(self, process: Followed) -> Followed | None:
        """Return the rank that a process is or works for: helpers inherit its environment."""
        if self._is_rank:
            return None
        by_pid = {follower.pid: follower for follower in self._processes.values()}
        line = [process, *ancestors(process, by_pid)]
        ranks = [ancestor for ancestor in line if ancestor.rank is not None]
        return next((rank for rank in reversed(ranks) if rank.rank == ranks[0].rank), None)

    def _programs(self) -> list[tuple[Followed, list[Followed]]]:
        """Return each rank with its helpers, or else the process that does the steps with all."""
        living = [process for process in self._read() if process.is_alive]
        groups: dict[Followed | None, list[Followed]] = {}
        for process in living:
            groups.setdefault(self._rank_above(process), []).append(process)
        ranks = [(rank, group) for rank, group in groups.items() if rank is not None]
        return (
            ranks or [(max(living, key=lambda process: process.steps.count), living)]
            if living
            else []
        )

    def _program(self, request: Mapping[str, Any]) -> tuple[Followed, list[Followed]]:
        """Return the program that a request is about."""
        programs = self._programs()
        if not programs:
            raise RequestError("no process of this run is recorded now")
        pid = request.get("pid")
        return next(
            (program for program in programs if pid in {of.pid for of in program[1]}), programs[0]
        )

    # ---- requests

    def _status(self, _request: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._reading:
            return [self._status_of(program, group) for program, group in self._programs()]

    def _status_of(self, program: Followed, group: list[Followed]) -> dict[str, Any]:
        processes = [self._folders.owner.pid, *(process.pid for process in group)]
        return {
            **program.status(self._folders.about["program"]),
            "recording": self._recording,
            "processes": processes,
            "run": self._folders.shared,
        }

    def _steps(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._reading:
            program, group = self._program(request)
            busiest = max(group, key=lambda process: process.steps.count)
            return {**self._status_of(program, group), **last_steps(busiest.steps)}

    def _capture(self, request: Mapping[str, Any]) -> dict[str, Any]:
        seconds, path = checked_seconds(request), asked_path(request)
        self._check_that_it_is_recorded(checked_options(request))
        with self._reading:
            program, _ = self._program(request)
            status = program.status("")
            rank = self._rank_above(program)
        path = path or self._free_path(rank)
        why = {
            "reason": str(request.get("reason") or "asked for from outside"),
            "by": str(request.get("by", "outside")),
        }
        start_ns = 0 if seconds is None else _native.now_ns()
        if seconds is not None:
            self._has_ended.wait(seconds)
        is_quiet = bool(request.get("quiet"))
        writing = self._write_later(
            rank, why, path, pid=program.pid, start_ns=start_ns, is_quiet=is_quiet
        )
        if request.get("wait", True):
            writing.result()
        else:
            writing.add_done_callback(_tell_failure)
        return {"path": str(path), **{name: status[name] for name in ("pid", "rank", "world_size")}}

    def _check_that_it_is_recorded(self, options: Mapping[str, object]) -> None:
        """Raise RequestError for an option that only a start of the program can turn on."""
        for name, value in options.items():
            option = known_options()[name]
            if self._recorded[option] != option.value_of(value):
                raise RequestError(
                    f"{name} cannot be turned on while the program runs: start it with "
                    f"`stepscope run {option.flag}`"
                )

    # ---- captures

    def _write_in_turn(self, rank: Followed | None, why: Mapping[str, Any]) -> None:
        """Write a capture in the background."""
        self._write_later(rank, why).add_done_callback(_tell_failure)

    def _write_later(
        self,
        rank: Followed | None,
        why: Mapping[str, Any],
        path: Path | None = None,
        *,
        pid: int = 0,
        start_ns: int = 0,
        is_quiet: bool = False,
    ) -> Future[None]:
        """Write a capture of a rank or the program from ``start_ns`` on, in another process."""
        target = path or self._free_path(rank)
        request = {
            "pid": pid if rank is None else rank.pid,
            "is_rank": self._is_rank,
            "start_ns": start_ns,
            "why": {**why, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")},
            "path": str(target),
            "is_quiet": is_quiet,
        }
        folders = [self._folders.disk, self._folders.memory]
        words = ["-I", "-c", _WRITER, ":".join(sys.path), *folders, json.dumps(request)]
        return self._writers.submit(_written, [sys.executable, *words], target)

    def _free_path(self, rank: Followed | None) -> Path:
        """Return a free name for a capture beside the trace of the run."""
        stem = self._output.name.removesuffix(suffix_of(self._output))
        return free_path(self._output.parent, with_rank(stem, None if rank is None else rank.rank))


def _tell_failure(writing: Future[None]) -> None:
    error = writing.exception()
    if error is not None:
        notify(str(error))


def _written(command: list[str], target: Path) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    obstacle = done.stdout.strip()
    if done.returncode:
        raise RequestError(f"{target} was not written: {obstacle or f'exit {done.returncode}'}")
