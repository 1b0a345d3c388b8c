"""What a program of this folder knows about itself: it times its own steps, functions and waits.

Work is measured by the thread's CPU time, which is the same on a busy machine; a step's length and
a request's by the wall clock, because that is what its user feels.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

cpu_ns = time.thread_time_ns
wall_ns = time.perf_counter_ns

FEWEST_LOOPS = 1000  # some 50 us: reading the clock takes 1 % of it


def burn(milliseconds: float) -> None:
    """Run Python code for this much CPU time of the calling thread.

    The clock is read a few times only: where all cores are busy, a thread loses its core mostly
    when it reads its own clock, because the kernel looks then whether its turn is over.
    """
    begin = now = cpu_ns()
    end = begin + int(milliseconds * 1e6)
    number, loops, done = 1, FEWEST_LOOPS, 0
    while now < end:
        for _ in range(loops):
            number = number * 3 % 7
        done += loops
        now = cpu_ns()
        loops = max(done * (end - now) // (now - begin), FEWEST_LOOPS)


add_numbers = partial(sum, range(20_000))


def crunch(milliseconds: float, call: Callable[[], object] = add_numbers) -> None:
    """Run C code that Python calls for this much CPU time of the calling thread."""
    begin = now = cpu_ns()
    end = begin + int(milliseconds * 1e6)
    calls, done = 1, 0
    while now < end:
        for _ in range(calls):
            call()
        done += calls
        now = cpu_ns()
        calls = max(done * (end - now) // (now - begin), 1)


class _Thread(threading.local):
    """The open parts of one thread, how long it has waited so far, and what took its time."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.waited_ns = 0
        self.causes: dict[str, int] = defaultdict(int)
        self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def ready_ns(self) -> int:
        """Return how long this thread could run and had no core: the kernel's own count."""
        return int(os.pread(self.schedstat, 64, 0).split()[1])


_thread_state = _Thread()
_lock = _thread.allocate_lock()  # also under gevent, which replaces threading's


class Timed:
    """A block whose CPU time, waiting and length are measured."""

    def __enter__(self) -> Timed:
        self.waited_before_ns = _thread_state.waited_ns
        self.cpu_before_ns = cpu_ns()
        self.wall_before_ns = wall_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wall_ns = wall_ns() - self.wall_before_ns
        self.cpu_ns = cpu_ns() - self.cpu_before_ns
        self.waited_ns = _thread_state.waited_ns - self.waited_before_ns
        if kind is None:
            self.close()

    def close(self) -> None:
        """Enter what was measured into the book."""


class Part(Timed):
    """A function, or the part of it that runs without a break: its own time and all inside."""

    def __init__(self, book: Book, name: str, has_total: bool) -> None:
        self.book = book
        self.name = name
        self.has_total = has_total
        self.inside_cpu_ns = 0
        self.inside_waited_ns = 0

    def __enter__(self) -> Timed:
        _thread_state.parts.append(self)
        return super().__enter__()

    def close(self) -> None:
        parts = _thread_state.parts
        parts.pop()
        if parts:
            parts[-1].inside_cpu_ns += self.cpu_ns
            parts[-1].inside_waited_ns += self.waited_ns
        with _lock:
            sums = self.book.functions[self.name]
            sums["calls"] += 1
            sums["own_ns"] += self.cpu_ns - self.inside_cpu_ns
            if all(part.name != self.name for part in parts):  # once, however deep a recursion
                sums["total_ns"] += self.cpu_ns if self.has_total else 0
                sums["waited_ns"] += self.waited_ns


class Cause(Timed):
    """A block that is one cause of a step's time: forward, backward, data, ..."""

    def __init__(self, book: Book, name: str) -> None:
        self.book = book
        self.name = name

    def close(self) -> None:
        self.book.add_to_cause(self.name, self.cpu_ns + self.waited_ns)


class Waiting(Timed):
    """A block in which the thread waits: for time to pass, a lock, a queue, a socket."""

    def __init__(self, book: Book, name: str) -> None:
        self.book = book
        self.name = name

    def __enter__(self) -> Timed:
        self.ready_before_ns = _thread_state.ready_ns()
        return super().__enter__()

    def close(self) -> None:
        waited_ns = self.wall_ns - self.cpu_ns - (_thread_state.ready_ns() - self.ready_before_ns)
        _thread_state.waited_ns += waited_ns
        self.book.add_to_cause(self.name, waited_ns)


class Step(Timed):
    """A step or a request, with what its causes took of it."""

    def __init__(self, book: Book, unit: str) -> None:
        self.book = book
        self.unit = unit

    def __enter__(self) -> Timed:
        self.causes_before = dict(_thread_state.causes)
        return super().__enter__()

    def close(self) -> None:
        before = self.causes_before
        causes = {name: ns - before.get(name, 0) for name, ns in _thread_state.causes.items()}
        with _lock:
            self.book.steps.append(
                {
                    "unit": self.unit,
                    "wall_ns": self.wall_ns,
                    "own_ns": self.cpu_ns + self.waited_ns,
                    "causes": causes,
                }
            )


class Book:
    """What happened in this process, as its own clocks saw it."""

    def __init__(self) -> None:
        self.functions: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.causes: dict[str, int] = defaultdict(int)
        self.steps: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.run = Timed()
        self.run.__enter__()

    def part(self, name: str) -> Part:
        """Time a function with all that it calls."""
        return Part(self, name, has_total=True)

    def own_part(self, name: str) -> Part:
        """Time a block of a function that calls others outside of it: its own time alone."""
        return Part(self, name, has_total=False)

    def cause(self, name: str) -> Cause:
        return Cause(self, name)

    def waiting(self, name: str) -> Waiting:
        return Waiting(self, name)

    def step(self) -> Step:
        return Step(self, "step")

    def request(self) -> Step:
        return Step(self, "request")

    def add_to_cause(self, name: str, ns: int) -> None:
        _thread_state.causes[name] += ns
        with _lock:
            self.causes[name] += ns

    def add_request(self, length_ns: int) -> None:
        """Enter a request that overlaps others in its thread: only its length is known."""
        self.steps.append({"unit": "request", "wall_ns": length_ns})

    def write(self) -> None:
        """Write one line of JSON: to the file TRUTH_FILE, or else to standard output."""
        self.run.__exit__(None, None, None)
        truth = {
            "functions": self.functions,
            "causes": self.causes,
            "steps": self.steps,
            "own_ns": self.run.cpu_ns + self.run.waited_ns,
            **self.facts,
        }
        line = json.dumps(truth) + "\n"
        path = os.environ.get("TRUTH_FILE")
        if not path:
            print(line, end="")
            return
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())
        os.close(file)


book = Book()
os.register_at_fork(after_in_child=book.functions.clear)  # what the parent did is in its own book


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter each call of a function into the book by its qualified name."""

    def call(*arguments: Any, **named: Any) -> Any:
        with book.part(function.__qualname__):
            return function(*arguments, **named)

    return call


def run_one(programs: Mapping[str, Callable[[], None]]) -> None:
    """Run the program that the command line names, and write what it knows."""
    programs[sys.argv[1]]()
    book.write()
