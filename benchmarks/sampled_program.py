"""Programs to be sampled, with and without a sampler, each in a process of its own.

``sampled_program.py threads SAMPLER COUNT TURNS`` times a fixed amount of work in as many threads;
``many`` and ``shares`` tell what 200 threads cost, and how true the shares of ten functions are.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.python.sampler import Sampler
from stepscope.record.recorder import Recorder
from stepscope.trace.kinds import ThreadState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace

DEPTH = 30
ROUNDS = 6_000_000  # of a block's loop, over all threads
SHARES = (1, 2, 3, 5, 7, 9, 12, 16, 20, 25)  # of the ten functions, in percent
SHARES_S = 10.0
MANY_S = 10.0


def count(rounds: int) -> int:
    """Be busy."""
    total = 0
    for i in range(rounds):
        total += i
    return total


def deep(depth: int, work: Callable[[], object]) -> object:
    """Do it under as many frames."""
    return deep(depth - 1, work) if depth else work()


def in_threads(threads: int, work: Callable[[], object]) -> None:
    """Do it in each of some threads, at once."""
    running = [threading.Thread(target=deep, args=(DEPTH, work)) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def block(threads: int) -> None:
    """Do a fixed amount of work."""
    in_threads(threads, lambda: count(ROUNDS // threads))


class Sampled:
    """What Stepscope's sampler found, and what it cost."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.source = Sampler()
        self.trace: Trace | None = None
        self.cpu_ns = self.wall_ns = 0

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Sample what is done inside."""
        recorder = Recorder([self.source])
        recorder.prepare()
        recorder.start()
        try:
            yield
        finally:
            self.trace = recorder.stop()
            self.cpu_ns += self.source.counts["cpu_ns"]
            self.wall_ns += self.source.counts["wall_ns"]


@contextlib.contextmanager
def pyinstrument() -> Iterator[None]:
    """Sample with pyinstrument, at the same interval."""
    from pyinstrument import Profiler

    with Profiler(interval=0.001):
        yield


def threads(sampler: str, count: int, turns: int) -> dict[str, float]:
    """Return the seconds of a block with the sampler and without, and the sampler's own share."""
    ours = Sampled()
    ways: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
        "bare": contextlib.nullcontext,
        "sampled": {"stepscope": ours.on, "pyinstrument": pyinstrument}.get(
            sampler, contextlib.nullcontext
        ),
    }
    taken = dict.fromkeys(ways, 0.0)
    for _ in range(turns):
        for way in random.sample(list(ways), len(ways)):
            with ways[way]():
                began = time.perf_counter()
                block(count)
                taken[way] += time.perf_counter() - began
    share = ours.cpu_ns / ours.wall_ns if ours.wall_ns else 0.0
    return {**taken, "share": share, "cpu_s": time.process_time()}


def many() -> dict[str, float]:
    """Return what 200 threads cost that sleep and now and then run one of two functions."""
    ends_s = time.monotonic() + MANY_S

    def one() -> int:
        return count(1_500)

    def two() -> int:
        return count(4_500)

    def work() -> None:
        while time.monotonic() < ends_s:
            one()
            two()
            time.sleep(random.uniform(0.05, 0.15))

    ours = Sampled()
    with ours.on():
        in_threads(200, work)
    result = _ran_in(ours, lambda name: name.rpartition(".")[2])
    share = result["one"] / (result["one"] + result["two"])
    return {"share": ours.cpu_ns / ours.wall_ns, "error": abs(100 * share - 25)}


def shares() -> dict[str, float]:
    """Return by how many percentage points the worst of ten functions is off."""
    functions = [lambda rounds=150 * share: count(rounds) for share in SHARES]
    for number, function in enumerate(functions):
        code = function.__code__.replace(co_name=f"f{number}", co_qualname=f"f{number}")
        function.__code__ = code
    ours = Sampled()
    ends_s = time.monotonic() + SHARES_S
    with ours.on():
        while time.monotonic() < ends_s:
            for _ in range(50):
                for function in functions:
                    function()
    result = _ran_in(ours, lambda name: name)
    total = sum(result[f"f{i}"] for i in range(len(SHARES)))
    errors = [abs(100 * result[f"f{i}"] / total - share) for i, share in enumerate(SHARES)]
    return {"error": max(errors)}


def _ran_in(ours: Sampled, name_of: Callable[[str], str]) -> Counter[str]:
    """Return for how long each function was seen running, with what it called."""
    trace = ours.trace
    assert trace is not None
    samples = trace.samples
    counts: Counter[str] = Counter()
    for stack, state, duration_ns in zip(
        samples.stack.tolist(), samples.state.tolist(), samples.duration_ns.tolist(), strict=True
    ):
        if state in (ThreadState.PYTHON, ThreadState.NATIVE):
            frames = (trace.strings[i] for i in trace.stacks.frames(stack))
            names = {name_of(frame.rpartition("): ")[2]) for frame in frames}
            counts.update(dict.fromkeys(names, duration_ns))
    return counts


def main() -> None:
    """Do what is asked for, and print it."""
    what, *words = sys.argv[1:]
    result: dict[str, Any]
    if what == "threads":
        result = threads(words[0], int(words[1]), int(words[2]))
    else:
        result = {"many": many, "shares": shares}[what]()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
