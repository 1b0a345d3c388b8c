"""What recording adds to an operator: nothing, an empty callback, Stepscope, torch.profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from common import Row, interleaved_ns, seconds, timed_ns

import stepscope
from stepscope.sources.torch_ops import load_bridge

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 30


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


def measure(work: Callable[[], object], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the best time of the work in ns: bare, and under each observer."""
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
    return interleaved_ns(variants, rounds)


def rows() -> list[Row]:
    """Compare the added cost of an operator on both loops."""
    torch.set_num_threads(1)
    result = []
    loops = (
        ("a loop of adds", adds(), 0.6),
        ("an MLP training step with Adam", mlp(torch.optim.Adam), 0.65),
        ("an MLP training step with SGD", mlp(torch.optim.SGD), 0.65),
    )
    for name, (work, operators), bar in loops:
        best = measure(work)
        added = {key: (value - best["bare"]) / operators * 1e-9 for key, value in best.items()}
        ratio, floor = added["ours"] / added["torch"], added["ours"] / added["empty"]
        result += [
            Row(
                f"added to an operator, {name}",
                seconds(added["ours"]),
                f"torch.profiler {seconds(added['torch'])}",
                f"{ratio:.2f} ×",
                f"≤ {bar} ×",
                ratio <= bar,
            ),
            Row(
                f"the same over the floor, {name}",
                seconds(added["ours"]),
                f"empty callback {seconds(added['empty'])}",
                f"{floor:.2f} ×",
                "aim 1.5 ×",
                None,
            ),
        ]
    return result


if __name__ == "__main__":
    for row in rows():
        print(row)
