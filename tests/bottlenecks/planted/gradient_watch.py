"""Trains a deep narrow network and watches the gradient of every weight.

Problem: scalar-reads
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "100"))
FIXED = os.environ.get("FIXED") == "1"


class Watch:
    """Keeps the norm, the extremes and the spread of all gradients."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.norms: dict[str, list[float]] = {name: [] for name, _ in model.named_parameters()}

    def after_backward(self) -> None:
        for name, weight in self.model.named_parameters():
            norm = weight.grad.norm().item()  # guilty
            largest = weight.grad.abs().max().item()  # guilty
            smallest = weight.grad.abs().min().item()  # guilty
            spread = weight.grad.std().item()  # guilty
            self.norms[name] += [norm, largest, smallest, spread]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(self.norm(x)).relu()


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual(128) for _ in range(24)), nn.Linear(128, 1))
    watch = Watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(64, 128)
    y = x.sum(1, keepdim=True)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        if not FIXED or step % 50 == 49:
            watch.after_backward()  # guilty
        optimizer.step()
    print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
