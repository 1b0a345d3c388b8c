"""Steps with several backward passes, closures or optimizers."""

from __future__ import annotations

import torch
from own_truth import book, run_one
from torch import Tensor
from torch_model import forward_and_backward, loss_of, make_batch, make_model, update


def accumulate(batches_of_a_step: int) -> None:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(120 // batches_of_a_step):
        with book.step():
            for _ in range(batches_of_a_step):
                forward_and_backward(model, 384)
            update(optimizer)


def closure() -> None:
    """The optimizer calls the closure, as Lightning's loop has it."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(120):
        with book.step():
            optimizer.zero_grad()
            optimizer.step(lambda: forward_and_backward(model, 512))


def lbfgs() -> None:
    model = make_model(64)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=8, history_size=4)
    inputs, labels = make_batch(512)

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        with book.cause("forward"):
            loss: Tensor = loss_of(model(inputs), labels)
        with book.cause("backward"):
            loss.backward()
        return loss

    for _ in range(60):
        with book.step():
            optimizer.step(evaluate)


class Task:
    """A module in the shape of Lightning's: the loop below knows only its hooks."""

    def __init__(self) -> None:
        self.model = make_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        with book.cause("forward"):
            return loss_of(self.model(batch[0]), batch[1])


def hooks() -> None:
    task = Task()

    def run_training_step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = task.training_step(batch)
        task.optimizer.zero_grad()
        with book.cause("backward"):
            loss.backward()
        return loss

    for _ in range(100):
        with book.step():
            batch = make_batch(512)
            task.optimizer.step(lambda batch=batch: run_training_step(batch))


def gan(critic_updates: int) -> None:
    generator, critic = make_model(), make_model()
    of_generator = torch.optim.Adam(generator.parameters())
    of_critic = torch.optim.Adam(critic.parameters())
    for _ in range(100 // (critic_updates + 1)):
        with book.step():
            for _ in range(critic_updates):
                forward_and_backward(critic, 256)
                update(of_critic)
            inputs, labels = make_batch(256)
            with book.cause("forward"):
                loss = loss_of(critic(generator(inputs).repeat(1, 7)[:, :64]), labels)
            with book.cause("backward"):
                loss.backward()
            update(of_generator)


def two_optimizers() -> None:
    """One loss, and an optimizer for each half of the model."""
    model = make_model()
    halves = [torch.optim.SGD(model[layer].parameters(), 0.01) for layer in (0, 2)]
    for _ in range(100):
        with book.step():
            forward_and_backward(model, 512)
            for optimizer in halves:
                update(optimizer)


run_one(
    {
        "accumulate4": lambda: accumulate(4),
        "accumulate10": lambda: accumulate(10),
        "closure": closure,
        "lbfgs": lbfgs,
        "hooks": hooks,
        "gan": lambda: gan(1),
        "gan5": lambda: gan(5),
        "two_optimizers": two_optimizers,
    }
)
