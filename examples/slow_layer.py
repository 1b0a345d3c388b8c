"""A small network with one layer that costs more than all others together.

Profile it with `stepscope run --modules --shapes examples/slow_layer.py`.
"""

from __future__ import annotations

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Network(nn.Module):
    """Three stages, of which the middle one has a kernel that is far too large."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(16, 16, 15, padding=7)  # 25 times the work of a 3 x 3 kernel
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.stem(pictures))
        features = torch.relu(self.wide(features))
        return self.head(features)


def main() -> None:
    torch.manual_seed(0)
    model = Network().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        pictures = torch.randn(8, 3, 64, 64, device=DEVICE)
        labels = torch.randint(10, (8,), device=DEVICE)
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
