"""Training loops that do something else every n steps, or afterwards."""

from __future__ import annotations

import io

import torch
from own_truth import burn, run_one, timed
from torch import nn
from torch_model import make_batch, make_model, train_step


@timed
def evaluate(model: nn.Module) -> None:
    model.eval()
    with torch.no_grad():
        for _ in range(30):
            model(make_batch(512)[0]).argmax(1)
    model.train()


@timed
def save(model: nn.Module) -> None:
    for _ in range(20):
        torch.save(model.state_dict(), io.BytesIO())


@timed
def log_metrics() -> None:
    burn(60)


def train(steps: int, every: int, *others: str) -> nn.Module:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    actions = {"evaluate": evaluate, "save": save}
    for step in range(1, steps + 1):
        train_step(model, optimizer, 256)
        if step % every == 0:
            for name in others:
                if name == "log_metrics":
                    log_metrics()
                else:
                    actions[name](model)
    return model


def then_evaluate() -> None:
    model = train(120, 1)
    evaluate(model)
    evaluate(model)


run_one(
    {
        "evaluate": lambda: (train(100, 10, "evaluate"), None)[1],
        "checkpoint": lambda: (train(100, 5, "save"), None)[1],
        "both": lambda: (train(100, 20, "evaluate", "save"), None)[1],
        "metrics": lambda: (train(100, 10, "log_metrics"), None)[1],
        "then_evaluate": then_evaluate,
    }
)
