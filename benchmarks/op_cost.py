"""What recording adds to an operator: nothing, an empty callback, Stepscope, torch.profiler.

Where the loader happens to put the libraries moves every figure by a factor, the empty callback's
too, and stays for the life of a process. So each loop runs in several processes; a row shows the
median of their ratios, with the lowest and the highest.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import TYPE_CHECKING

import torch
from common import Row, in_child, interleaved_ns, seconds, timed_ns

import stepscope
from stepscope.frameworks.torch.operators import load_bridge

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 11
PROCESSES = 9


def adds() -> tuple[Callable[[], object], int]:
    """Return a loop of additions of four numbers, and its number of operators."""
    a, b, count = torch.ones(4), torch.ones(4), 4_000

    def work() -> None:
        for _ in range(count):
            torch.add(a, b)

    return work, count


def mlp(optimizer: type[torch.optim.Optimizer]) -> tuple[Callable[[], object], int]:
    """Return training steps of a small perceptron, and their number of operators."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 10),
    )
    loss_of = torch.nn.CrossEntropyLoss()
    stepper = optimizer(model.parameters(), lr=1e-3)  # type: ignore[call-arg]
    inputs, targets = torch.randn(16, 32), torch.randint(0, 10, (16,))

    def work() -> None:
        for _ in range(40):
            stepper.zero_grad()
            loss_of(model(inputs), targets).backward()
            stepper.step()

    with stepscope.profile() as prof:
        work()
    return work, len(prof.trace)


LOOPS = {
    "a loop of adds": (adds, 0.6),
    "an MLP training step with Adam": (lambda: mlp(torch.optim.Adam), 0.65),
    "an MLP training step with SGD": (lambda: mlp(torch.optim.SGD), 0.65),
}


def added_ns(loop: str) -> dict[str, float]:
    """Return what each observer adds to an operator of the loop, in this process."""
    torch.set_num_threads(1)
    work, operators = LOOPS[loop][0]()
    bridge = load_bridge(torch)
    work()

    def empty() -> int:
        bridge.stepscope_bridge_start_empty()
        try:
            return timed_ns(work)
        finally:
            bridge.stepscope_bridge_stop_empty()

    def ours() -> int:
        with stepscope.profile():
            return timed_ns(work)

    def theirs() -> int:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return timed_ns(work)

    variants = {"bare": lambda: timed_ns(work), "empty": empty, "ours": ours, "torch": theirs}
    typical = interleaved_ns(variants, ROUNDS, median)
    return {key: (value - typical["bare"]) / operators for key, value in typical.items()}


def compare(runs: list[dict[str, float]], peer: str) -> tuple[float, str]:
    """Return the median ratio of ours to the peer over the processes, and how it reads."""
    ratios = sorted(run["ours"] / run[peer] for run in runs)
    return median(ratios), f"{median(ratios):.2f} × ({ratios[0]:.2f}-{ratios[-1]:.2f})"


def rows() -> list[Row]:
    """Compare the added cost of an operator on every loop."""
    result = []
    for loop, (_, bar) in LOOPS.items():
        runs = [in_child("op_cost", loop) for _ in range(PROCESSES)]
        cost = {key: seconds(median(run[key] for run in runs) * 1e-9) for key in runs[0]}
        ratio, text = compare(runs, "torch")
        result.append(
            Row(
                f"added to an operator, {loop}",
                cost["ours"],
                f"torch.profiler {cost['torch']}",
                text,
                f"≤ {bar} ×",
                ratio <= bar,
            )
        )
        floor = f"empty callback {cost['empty']}"
        over_floor = compare(runs, "empty")[1]
        result.append(
            Row("the same over the floor", cost["ours"], floor, over_floor, "aim 1.5 ×", None)
        )
    return result


if __name__ == "__main__":
    print(json.dumps(added_ns(sys.argv[1])))
