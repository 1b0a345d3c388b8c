"""Steps of unusual sizes: alternating, random, growing, tiny; and programs of one or three."""

from __future__ import annotations

import random

import torch
from own_truth import run_one
from torch_model import make_model, train_step


def train(sizes: list[int], width: int = 256) -> None:
    model = make_model(width)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for size in sizes:
        train_step(model, optimizer, size)


def alternating() -> None:
    train([64, 1024] * 60)


def random_sizes() -> None:
    generator = random.Random(0)
    train([generator.randint(64, 1024) for _ in range(120)])


def growing() -> None:
    train([16 * i for i in range(1, 100)])


def tiny() -> None:
    train([4] * 800, width=16)


def only_one() -> None:
    train([20_000])


def three() -> None:
    train([6_000] * 3)


run_one(
    {
        "alternating": alternating,
        "random": random_sizes,
        "growing": growing,
        "tiny": tiny,
        "one": only_one,
        "three": three,
    }
)
