"""The whole of ``stepscope run`` with no option beside the bare step: a ResNet-18 and a small MLP.

In each process, turns under the sources that ``run`` would start and turns under none take place in
random order. Judged is the wall time of a step; the time of the training thread on a core is beside
it, which programs on the same machine lengthen less, and which the sampler's thread is no part of.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from common import column_s, in_children
from op_cost import mlp
from rows import Row, share_row

from stepscope import record_function
from stepscope.cli.base.command import Parser
from stepscope.cli.base.options import record_options
from stepscope.cli.verbs.run import Run
from stepscope.record.session import Session
from stepscope.record.source import make_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

PROCESSES = 8
TURNS = 4
BLOCKS_A_TURN = 6
IN_A_ROW = 20
QUANTILE = 0.25  # interruptions only ever lengthen
CLOCKS: dict[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "thread": time.thread_time_ns,
}


def resnet() -> Callable[[], object]:
    """Return a training step of the ResNet-18 of the examples."""
    from train_resnet import ResNet18

    torch.manual_seed(0)
    model = ResNet18(classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def digits_mlp() -> Callable[[], object]:
    """Return a training step of a perceptron of a size for handwritten digits."""
    torch.manual_seed(0)
    widths = (784, 256, 128)
    layers: list[torch.nn.Module] = []
    for before, width in itertools.pairwise(widths):
        layers += [torch.nn.Linear(before, width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = torch.randn(64, widths[0]), torch.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def many(make: Callable[[], Callable[[], object]]) -> Callable[[], Callable[[], object]]:
    """Return what makes some steps in a row: what is drawn by lot weighs in, too."""

    def made() -> Callable[[], object]:
        step = make()

        def steps() -> None:
            for _ in range(IN_A_ROW):
                step()

        return steps

    return made


STEPS: dict[str, tuple[Callable[[], Callable[[], object]], int, float | None]] = {
    "a ResNet-18": (resnet, 1, 1.03),
    "a small MLP": (many(digits_mlp), IN_A_ROW, 1.15),
    # The same number of operators, all as small as they can be: torch's own callbacks cost most.
    "an MLP of width 32": (many(lambda: mlp(torch.optim.Adam)), IN_A_ROW, None),
}


@contextlib.contextmanager
def default_run(*words: str) -> Iterator[None]:
    """Record what ``stepscope run`` with these options does."""
    verb, parser = Run(), Parser(prog="run")
    verb.add_arguments(parser)
    session = Session(make_sources(record_options(parser.parse_args([*words, "program.py"]))))
    session.start()
    with record_function("program.py"):
        yield
    session.stop()


OBSERVERS = {
    "bare": contextlib.nullcontext,
    "default": default_run,
    "without the sampler": lambda: default_run("--sample", "off"),
}


def timed(work: Callable[[], object], turns: int) -> dict[str, float]:
    """Return the lower quartile of a block under each observer, by each clock, in ns."""
    taken: dict[str, list[int]] = {f"{who} {clock}": [] for who in OBSERVERS for clock in CLOCKS}
    work()
    gc.collect()
    for _ in range(turns):
        for who in random.sample(list(OBSERVERS), len(OBSERVERS)):
            with OBSERVERS[who]():
                work()  # a recording's first block meets cold caches
                for _ in range(BLOCKS_A_TURN):
                    began = {name: clock() for name, clock in CLOCKS.items()}
                    work()
                    for name, clock in CLOCKS.items():
                        taken[f"{who} {name}"].append(clock() - began[name])
            gc.collect()
    return {name: float(np.quantile(times, QUANTILE)) for name, times in taken.items()}


def measure(turns: int) -> dict[str, dict[str, float]]:
    """Return the time of a step of each program, in this process."""
    torch.set_num_threads(1)
    by_name = {}
    for name, (make, steps, _) in STEPS.items():
        times = timed(make(), turns)
        by_name[name] = {key: time_ns / steps for key, time_ns in times.items()}
    return by_name


def rows(quick: bool = False) -> list[Row]:
    """Compare the steps."""
    processes, turns = (4, 3) if quick else (PROCESSES, TURNS)
    runs = in_children(processes, "default_run", str(turns))
    result = []
    for name, (_, _, bar) in STEPS.items():
        of_program = [run[name] for run in runs]
        for clock, what in (("wall", "step"), ("thread", "the same on a core")):
            bare = column_s(of_program, f"bare {clock}")
            at_most = bar if clock == "wall" else None
            ours = column_s(of_program, f"default {clock}")
            result.append(share_row(f"{what} of {name}", ours, bare, "bare", at_most))
        rest = column_s(of_program, "without the sampler thread")
        result.append(share_row("without the sampler", rest, bare, "bare", None))
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
