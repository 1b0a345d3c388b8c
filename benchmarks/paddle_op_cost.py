"""What recording adds to an operator of Paddle: Stepscope beside paddle.profiler.

As in ``op_cost``: short blocks in random turns, in several processes. Both collect through Paddle's
own collector, which only one can have at a time; what differs is how phases are marked and what a
step costs besides.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import paddle
from blocks import Observers, added_ns
from common import column_s, in_children
from rows import Row, share_row

import stepscope.paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROCESSES = 16
TURNS = 12
BAR = 1.05  # for plain operators both do the same: the ratio is one, give or take


def adds() -> Callable[[], object]:
    """Return a loop of additions of four numbers."""
    a, b = paddle.ones([4]), paddle.ones([4])

    def work() -> None:
        for _ in range(300):
            paddle.add(a, b)

    return work


def mlp() -> Callable[[], object]:
    """Return a training step of a small perceptron."""
    paddle.seed(0)
    model = paddle.nn.Sequential(
        paddle.nn.Linear(32, 32),
        paddle.nn.ReLU(),
        paddle.nn.Linear(32, 32),
        paddle.nn.ReLU(),
        paddle.nn.Linear(32, 10),
    )
    loss_of = paddle.nn.CrossEntropyLoss()
    stepper = paddle.optimizer.Adam(parameters=model.parameters())
    inputs, targets = paddle.randn([16, 32]), paddle.randint(0, 10, [16])

    def work() -> None:
        loss_of(model(inputs), targets).backward()
        stepper.step()
        stepper.clear_grad()

    work()
    return work


LOOPS: dict[str, tuple[Callable[[], Callable[[], object]], dict[str, bool]]] = {
    "a loop of adds": (adds, {}),
    "an MLP training step": (mlp, {}),
    "an MLP training step with memory": (mlp, {"profile_memory": True}),
    "an MLP training step with shapes": (mlp, {"record_shapes": True}),
}


@contextlib.contextmanager
def profiled(dialect: Any, options: dict[str, bool]) -> Iterator[Any]:
    """Record with one of both, and write no file: that is measured elsewhere."""
    targets = [dialect.ProfilerTarget.CPU]
    profiler = dialect.Profiler(targets=targets, on_trace_ready=lambda _: None, **options)
    with contextlib.redirect_stdout(io.StringIO()):  # what steps cost
        profiler.start()
    try:
        yield profiler
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            profiler.stop()


def operators_of(work: Callable[[], object]) -> int:
    """Return how many operators the work has."""
    with profiled(stepscope.paddle, {}) as profiler:
        work()
    trace = profiler.trace
    operator = trace.strings.ids_of(["Operator"])["Operator"]
    return int((trace.slices.category == operator).sum())


def measure(turns: int) -> dict[str, dict[str, float]]:
    """Return what each profiler adds to an operator of each loop, in this process."""
    by_name = {}
    for loop, (make, options) in LOOPS.items():
        work = make()
        observers: Observers = {
            "bare": contextlib.nullcontext,
            "ours": functools.partial(profiled, stepscope.paddle, options),
            "paddle": functools.partial(profiled, paddle.profiler, options),
        }
        by_name[loop] = added_ns(observers, work, operators_of(work), turns)
    return by_name


def rows(quick: bool = False) -> list[Row]:
    """Compare the added cost of an operator on every loop."""
    processes, turns = (4, 3) if quick else (PROCESSES, TURNS)
    runs = in_children(processes, "paddle_op_cost", str(turns))
    result = []
    for loop in LOOPS:
        of_loop = [run[loop] for run in runs]
        ours, theirs = (column_s(of_loop, name) for name in ("ours", "paddle"))
        what = f"added to an operator of Paddle, {loop}"
        result.append(share_row(what, ours, theirs, "paddle.profiler", BAR))
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
