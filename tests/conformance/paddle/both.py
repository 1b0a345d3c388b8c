"""The same code on paddle.profiler and on stepscope.paddle."""

from __future__ import annotations

import gc
import importlib
import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("paddle.base")
paddle: Any = importlib.import_module("paddle")
THEIRS: Any = importlib.import_module("paddle.profiler")
OURS: Any = importlib.import_module("stepscope.paddle")
gc.freeze()  # what is imported need not be looked through between two profilers


def on_both(run: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what a function gives for each module: Paddle's first, then ours.

    It must not return the profiler: Paddle has one at a time.
    """
    theirs = run(THEIRS)
    gc.collect()
    return theirs, run(OURS)


def assert_same(run: Callable[[Any], Any]) -> Any:
    """Assert that a function gives the same for both modules, and return it."""
    theirs, ours = on_both(run)
    assert ours == theirs, f"\nPaddle: {theirs}\nours:   {ours}"
    return ours


def warned(run: Callable[[], Any]) -> list[type[Warning]]:
    """Return the categories of the warnings that a function causes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [item.category for item in caught]


def raised(run: Callable[[], Any]) -> type[BaseException] | None:
    """Return the class of the exception that a function raises."""
    try:
        run()
    except Exception as error:
        return type(error)
    return None


def nodes(result: Any) -> Iterator[tuple[int, Any]]:
    """Yield the nodes of a result's trees with their depth, parents first, in order of time."""
    waiting = [(0, root) for _, root in sorted(result.get_data().items())][::-1]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.children_node)]


def tree(result: Any) -> list[tuple[int, str, str]]:
    """Return depth, type and name of every node."""
    return [(depth, node.type.name, node.name) for depth, node in nodes(result)]


def count(result: Any) -> Counter[tuple[str, str]]:
    """Count the nodes by type and name."""
    return Counter((node.type.name, node.name) for _, node in nodes(result))


def without_numbers(text: str) -> str:
    """Return a text whose numbers and paddings are all alike."""
    return re.sub(r"[ -]+", " ", re.sub(r"\d+(\.\d+)?|\binf\b", "N", text))


class Numbers(paddle.io.Dataset):  # type: ignore[misc]
    """A few rows to load."""

    def __getitem__(self, index: int) -> Any:
        """Return one."""
        return np.full([4], index, np.float32), np.array([index % 2], np.int64)

    def __len__(self) -> int:
        """Return how many there are."""
        return 8


class Net(paddle.nn.Layer):  # type: ignore[misc]
    """A layer with layers in it."""

    def __init__(self) -> None:
        """Make them."""
        super().__init__()
        self.first, self.second = paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        """Call them."""
        return self.second(paddle.nn.functional.relu(self.first(x)))


class Training:
    """A model, its optimizer and its data; made once, as everything that runs first costs more."""

    def __init__(self) -> None:
        """Make them, and use them once."""
        self.model = Net()
        self.stepper = paddle.optimizer.Adam(parameters=self.model.parameters())
        self.step()

    def step(self) -> None:
        """Train on one batch."""
        loss = paddle.nn.functional.cross_entropy(
            self.model(paddle.ones([2, 4])), paddle.zeros([2, 1], "int64")
        )
        loss.backward()
        self.stepper.step()
        self.stepper.clear_grad()


def recorded(module: Any, work: Callable[[], object], **options: Any) -> Any:
    """Return a profiler that has recorded some work."""
    profiler = module.Profiler(
        targets=[module.ProfilerTarget.CPU], on_trace_ready=lambda _: None, **options
    )
    with profiler:
        work()
    return profiler
