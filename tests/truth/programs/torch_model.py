"""The model, the batches and the training step that the PyTorch programs share."""

from __future__ import annotations

import torch
from own_truth import book
from torch import Tensor, nn

torch.manual_seed(0)
torch.set_num_threads(1)  # so that one thread's clock sees all of it
loss_of = nn.CrossEntropyLoss()


def make_model(width: int = 256) -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def make_batch(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 64), torch.randint(0, 10, (size,))


def forward_and_backward(model: nn.Module, size: int) -> Tensor:
    with book.cause("other"):
        inputs, labels = make_batch(size)
    with book.cause("forward"):
        loss = loss_of(model(inputs), labels)
    with book.cause("backward"):
        loss.backward()
    return loss


def update(optimizer: torch.optim.Optimizer) -> None:
    with book.cause("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, size: int) -> None:
    with book.step():
        forward_and_backward(model, size)
        update(optimizer)
