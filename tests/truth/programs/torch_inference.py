"""Models that are only called: request by request, token by token, by several threads."""

from __future__ import annotations

import threading

import torch
from own_truth import book, burn, run_one, timed
from torch import Tensor
from torch_model import make_batch, make_model

model = make_model().eval()


@timed
def prepare() -> Tensor:
    burn(4)
    return make_batch(256)[0]


@timed
def pick(scores: Tensor) -> int:
    burn(3)
    return int(scores.argmax())


def calls(count: int = 120) -> None:
    for _ in range(count):
        with book.step():
            inputs = prepare()
            with book.cause("forward"):
                scores = model(inputs)
            pick(scores)


def threads() -> None:
    workers = [threading.Thread(target=calls, args=(25,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def two_models() -> None:
    decoder = make_model(512).eval()
    for _ in range(100):
        with book.step():
            inputs = prepare()
            with book.cause("forward"):
                coded = model(inputs)
                decoder(coded.repeat(1, 7)[:, :64])


@timed
def prefill() -> Tensor:
    with book.cause("forward"):
        return model(make_batch(1024)[0])


@timed
def next_token(scores: Tensor) -> Tensor:
    with book.cause("forward"):
        scores = model(scores[-32:].repeat(1, 7)[:, :64])
    pick(scores)
    return scores


def generate() -> None:
    for _ in range(15):
        with book.step():
            scores = prefill()
        for _ in range(16):
            with book.step():
                scores = next_token(scores)


with torch.inference_mode():
    run_one({"calls": calls, "two_models": two_models, "generate": generate, "threads": threads})
