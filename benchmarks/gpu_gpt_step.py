"""A training step of a small GPT on a real device: bare, under Stepscope, under torch.profiler.

Run it with the python3 of a machine with an NVIDIA GPU. Blocks of a few steps take turns in one
process; a figure is the median over the blocks, beside the bare blocks of the same turns.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from blocks import block_ns
from gpu_graphs import Block
from torch import nn
from torch.nn.functional import cross_entropy

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 6, 512, 8, 256, 8, 8_192
STEPS, TURNS, ROUNDS = 4, 2, 4
MAX_PLAIN, MAX_ALL = 1.12, 1.30
ALL = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")


class Gpt(nn.Module):
    """Embeddings, layers, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places(torch.arange(LENGTH, device=words.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def training() -> Callable[[], None]:
    """Return some steps of training, until the device is done."""
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.randint(WORDS, (BATCH, LENGTH), device="cuda")

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()

    return steps


def profiler_of(package: Any, options: tuple[str, ...]) -> Any:
    """Return a profiler of the host and the device."""
    activity = package.ProfilerActivity
    wanted = dict.fromkeys(options, True)
    return package.profile(activities=[activity.CPU, activity.CUDA], **wanted)


def main() -> int:
    """Print the times of a step; exit with 1 where a bar is missed."""
    steps = training()
    for _ in range(3):
        steps()
    observers: dict[str, Callable[[], Any]] = {"bare": contextlib.nullcontext}
    for who, package in (("stepscope", stepscope), ("torch.profiler", torch.profiler)):
        observers[who] = functools.partial(profiler_of, package, ())
        observers[f"{who}, all options"] = functools.partial(profiler_of, package, ALL)
    for extra in ("power", "counters"):
        observers[f"stepscope, {extra}"] = functools.partial(profiler_of, stepscope, (extra,))
    rounds = [block_ns(observers, steps, TURNS, time.perf_counter_ns) for _ in range(ROUNDS)]
    missed = False
    for who in observers:
        taken_ms = median(item[who] for item in rounds) / STEPS / 1e6
        times = sorted(round_[who] / round_["bare"] for round_ in rounds)
        bar = {"stepscope": MAX_PLAIN, "stepscope, all options": MAX_ALL}.get(who)
        missed |= bar is not None and median(times) > bar
        text = f", bar {bar:.2f}" if bar else ""
        print(
            f"{who:30} {taken_ms:7.2f} ms a step, {median(times):.3f} x bare "
            f"({times[0]:.3f} to {times[-1]:.3f}){text}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
