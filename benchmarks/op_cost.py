"""What recording adds to an operator: nothing, an empty callback, Stepscope, torch.profiler.

Each process times short blocks under each of them in random turns (``blocks``), and a row's
interval comes from the processes (``estimate``). The loop of adds needs the most of them: within a
process its ratio is known to some percent, from one to the next it differs by a factor of three.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from blocks import Observers, added_ns
from common import column_s, in_children
from rows import Row, share_row

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROCESSES = 40
TURNS = 10


def adds() -> Callable[[], object]:
    """Return a loop of additions of four numbers."""
    a, b = torch.ones(4), torch.ones(4)

    def work() -> None:
        for _ in range(300):
            torch.add(a, b)

    return work


def mlp(optimizer: type[torch.optim.Optimizer]) -> Callable[[], object]:
    """Return a training step of a small perceptron."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 10),
    )
    loss_of = torch.nn.CrossEntropyLoss()
    stepper = optimizer(model.parameters(), lr=1e-3)
    inputs, targets = torch.randn(16, 32), torch.randint(0, 10, (16,))

    def work() -> None:
        stepper.zero_grad()
        loss_of(model(inputs), targets).backward()
        stepper.step()

    work()  # optimizers allocate their state in their first step
    return work


LOOPS = {
    "a loop of adds": (adds, 0.6),
    "an MLP training step with Adam": (lambda: mlp(torch.optim.Adam), 0.65),
    "an MLP training step with SGD": (lambda: mlp(torch.optim.SGD), 0.65),
}


def operators_of(work: Callable[[], object]) -> int:
    """Return how many operators the work has."""
    with stepscope.profile() as prof:
        work()
    return len(prof.trace)


def loaded_bridge() -> ctypes.CDLL:
    """Return the library by which Stepscope listens to torch: it can listen and do nothing, too."""
    operators_of(lambda: torch.ones(1))
    maps = Path("/proc/self/maps").read_text().splitlines()
    mapped = {line.split(maxsplit=5)[-1] for line in maps}
    for path in sorted(path for path in mapped if "stepscope" in path and path.endswith(".so")):
        library = ctypes.CDLL(path)
        if hasattr(library, "stepscope_bridge_start_empty"):
            return library
    raise SystemExit("Stepscope recorded without its bridge to torch: nothing to compare")


def measure(turns: int) -> dict[str, dict[str, float]]:
    """Return what each observer adds to an operator of each loop, in this process."""
    torch.set_num_threads(1)
    bridge = loaded_bridge()

    @contextlib.contextmanager
    def empty() -> Iterator[None]:
        bridge.stepscope_bridge_start_empty()
        try:
            yield
        finally:
            bridge.stepscope_bridge_stop_empty()

    cpu = [torch.profiler.ProfilerActivity.CPU]
    observers: Observers = {
        "bare": contextlib.nullcontext,
        "empty": empty,
        "ours": stepscope.profile,
        "torch": lambda: torch.profiler.profile(activities=cpu),
    }
    works = {loop: make() for loop, (make, _) in LOOPS.items()}
    return {
        loop: added_ns(observers, work, operators_of(work), turns) for loop, work in works.items()
    }


def rows(quick: bool = False) -> list[Row]:
    """Compare the added cost of an operator on every loop."""
    processes, turns = (6, 3) if quick else (PROCESSES, TURNS)
    runs = in_children(processes, "op_cost", str(turns))
    result = []
    for loop, (_, bar) in LOOPS.items():
        of_loop = [run[loop] for run in runs]
        ours, theirs, floor = (column_s(of_loop, name) for name in ("ours", "torch", "empty"))
        what = f"added to an operator, {loop}"
        result += [
            share_row(what, ours, theirs, "torch.profiler", bar),
            share_row("the same over the floor", ours, floor, "empty callback", None),
        ]
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
