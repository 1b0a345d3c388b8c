"""Training steps of small PyTorch models, recorded by torch.profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

if TYPE_CHECKING:
    from collections.abc import Callable


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(4, 8)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
    )
    return nn.Sequential(layers, nn.Flatten(), nn.Linear(8 * 64, 5)), torch.randn(2, 3, 16, 16)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), torch.randn(2, 10, 32)


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


def training_step(model_name: str) -> Callable[[], None]:
    """Return a step of a small model that has been trained once already."""
    torch.manual_seed(0)
    model, data = MODELS[model_name]()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        with record_function("forward"):
            loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step


def profiled(model_name: str, *, record_shapes: bool = False) -> Any:
    """Train for four steps, the last three under torch.profiler; return the profiler."""
    torch.manual_seed(0)
    model, data = MODELS[model_name]()
    optimizer = torch.optim.AdamW(model.parameters())
    steps = schedule(wait=0, warmup=1, active=3, repeat=1)
    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, record_shapes=record_shapes, schedule=steps) as profiler:
        for _ in range(4):
            with record_function("forward"):
                loss = model(data).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    return profiler
