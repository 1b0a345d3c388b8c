"""Accumulates gradients over four small batches before each update, as it should be done.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "20"))
PARTS = 4


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, 1, 1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    count = 16 * PARTS * STEPS
    data = TensorDataset(torch.randn(count, 3, 32, 32), torch.arange(count) % 10)
    running = 0.0
    for i, (images, labels) in enumerate(DataLoader(data, batch_size=16)):
        loss = nn.functional.cross_entropy(model(images), labels) / PARTS
        loss.backward()
        running += loss.item()
        if i % PARTS == PARTS - 1:
            optimizer.step()
            optimizer.zero_grad()
    print(f"{running / STEPS:.3f}")


main()
