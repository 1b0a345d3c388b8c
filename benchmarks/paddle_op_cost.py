"""What recording adds to an operator of Paddle: Stepscope beside paddle.profiler.

As in ``op_cost``, each loop runs in several processes, and a row shows the median of their ratios.
Both collect through Paddle's own collector, which only one can have at a time; what differs is how
phases are marked and what a step costs besides.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

import paddle
from common import Row, in_child, interleaved_ns, seconds, timed_ns

from stepscope.frameworks.paddle.source import PaddleSource
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 31
PROCESSES = 5
NOISE = 0.05  # for plain operators both do the same: the ratio is one, give or take


def adds() -> Callable[[], object]:
    """Return a loop of additions of four numbers."""
    a, b = paddle.ones([4]), paddle.ones([4])

    def work() -> None:
        for _ in range(2_000):
            paddle.add(a, b)

    return work


def mlp() -> Callable[[], object]:
    """Return training steps of a small perceptron."""
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
        for _ in range(20):
            loss_of(model(inputs), targets).backward()
            stepper.step()
            stepper.clear_grad()

    return work


LOOPS: dict[str, tuple[Callable[[], Callable[[], object]], RecordOptions]] = {
    "a loop of adds": (adds, RecordOptions()),
    "an MLP training step": (mlp, RecordOptions()),
    "an MLP training step with memory": (mlp, RecordOptions(memory=True)),
    "an MLP training step with shapes": (mlp, RecordOptions(shapes=True)),
}


def added_ns(loop: str) -> dict[str, float]:
    """Return what each profiler adds to an operator of the loop, in this process."""
    make, options = LOOPS[loop]
    work = make()
    work()
    operators = _operators(work)

    def ours() -> int:
        recorder = Recorder([PaddleSource(options)])
        recorder.prepare()
        recorder.start()
        try:
            return timed_ns(work)
        finally:
            recorder.stop()

    def theirs() -> int:
        profiler = paddle.profiler.Profiler(
            targets=[paddle.profiler.ProfilerTarget.CPU],
            on_trace_ready=_ignore,
            record_shapes=options.shapes,
            profile_memory=options.memory,
        )
        profiler.start()
        try:
            return timed_ns(work)
        finally:
            profiler.stop()

    variants = {"bare": lambda: timed_ns(work), "ours": ours, "paddle": theirs}
    typical = interleaved_ns(variants, ROUNDS, median)
    return {key: (value - typical["bare"]) / operators for key, value in typical.items()}


def _operators(work: Callable[[], object]) -> int:
    recorder = Recorder([PaddleSource(RecordOptions())])
    recorder.start()
    work()
    trace = recorder.stop()
    assert trace is not None
    operator = trace.strings.ids_of(["Operator"])["Operator"]
    return int((trace.slices.category == operator).sum())


def _ignore(_: Any) -> None:
    """Write no file: that is measured elsewhere."""


def rows() -> list[Row]:
    """Compare the added cost of an operator on every loop."""
    result = []
    for loop in LOOPS:
        runs = [in_child("paddle_op_cost", loop) for _ in range(PROCESSES)]
        cost = {key: seconds(median(run[key] for run in runs) * 1e-9) for key in runs[0]}
        ratios = sorted(run["ours"] / run["paddle"] for run in runs)
        result.append(
            Row(
                f"added to an operator of Paddle, {loop}",
                cost["ours"],
                f"paddle.profiler {cost['paddle']}",
                f"{median(ratios):.2f} × ({ratios[0]:.2f}-{ratios[-1]:.2f})",
                f"≤ 1 × (± {NOISE})",
                median(ratios) <= 1 + NOISE,
            )
        )
    return result


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(added_ns(sys.argv[1])))
    else:
        for row in rows():
            print(row.what, row.ours, row.peer, row.ratio, row.bar, row.holds, sep="  |  ")
