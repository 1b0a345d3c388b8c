"""Training loops whose time goes elsewhere, or that no optimizer ends."""

from __future__ import annotations

import torch
from own_truth import book, burn, run_one, timed
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch_model import forward_and_backward, loss_of, make_batch, make_model, update


def by_hand() -> None:
    """Gradient descent without an optimizer."""
    model = make_model()
    for _ in range(100):
        with book.step():
            forward_and_backward(model, 512)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(parameter.grad, alpha=0.01)
                    parameter.grad = None


@timed
def act(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for _ in range(40):
            model(make_batch(1)[0])
            burn(0.5)


def reinforcement() -> None:
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(20):
        act(model)
        for _ in range(4):
            with book.step():
                forward_and_backward(model, 256)
                update(optimizer)


class Items(Dataset[tuple[Tensor, int]]):
    """Each item takes a millisecond of Python."""

    def __len__(self) -> int:
        return 800

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with book.part("Items.__getitem__"):
            burn(1)
        return torch.randn(64), index % 10


def slow_loader() -> None:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = iter(DataLoader(Items(), batch_size=16))
    for _ in range(50):
        with book.step():
            with book.cause("data"):
                inputs, labels = next(batches)
            with book.cause("forward"):
                loss = loss_of(model(inputs), labels)
            with book.cause("backward"):
                loss.backward()
            update(optimizer)


@timed
def augment() -> None:
    burn(12)


def python_in_the_step() -> None:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(80):
        with book.step():
            with book.cause("python"):
                augment()
            forward_and_backward(model, 256)
            update(optimizer)


run_one(
    {
        "by_hand": by_hand,
        "reinforcement": reinforcement,
        "slow_loader": slow_loader,
        "python_in_the_step": python_in_the_step,
    }
)
