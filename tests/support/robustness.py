"""What the tests of failures and endings share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stepscope import profile, record_function
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

ALL_OPTIONS: dict[str, Any] = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
    "with_flops": True,
}


def records_again() -> bool:
    """Tell whether a new profiler still gets what it should."""
    import torch

    with profile() as profiler, record_function("again"):
        torch.ones(1).neg()
    names = list(profiler.trace.names())
    return names.count("again") == names.count("aten::neg") == 1


def counts(trace: Trace, *names: str) -> list[int]:
    all_names = list(trace.names())
    return [all_names.count(name) for name in names]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run threads that begin together, and hear of what fails in them."""
    together = threading.Barrier(count)
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            together.wait()
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,), name=f"t{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class FailingSource(Source):
    """A source that fails in one of its methods."""

    name = "failing"

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self.is_on = False

    def _reach(self, stage: str) -> None:
        if stage == self._stage:
            raise ZeroDivisionError(f"in {stage}")

    def prepare(self) -> None:
        self._reach("prepare")

    def start(self) -> None:
        self._reach("start")
        self.is_on = True

    def stop(self) -> None:
        self.is_on = False
        self._reach("stop")

    def collect(self) -> None:
        self._reach("collect")

    def describe(self) -> str:
        self._reach("describe")
        return "it fails"

    def overhead_ns(self) -> float:
        self._reach("overhead_ns")
        return 0.0
