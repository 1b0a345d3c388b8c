"""Trains on few images for many epochs; the workers of the loader start anew in each.

Problem: data-loading
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "180"))
FIXED = os.environ.get("FIXED") == "1"
BATCHES = 6


def train(loader, model, optimizer, epochs):
    for _ in range(epochs):
        for images, labels in loader:  # guilty
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    return loss.item()


torch.manual_seed(0)
data = TensorDataset(torch.randn(64 * BATCHES, 3, 32, 32), torch.randint(0, 10, (64 * BATCHES,)))
model = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.Flatten())
model.append(nn.Linear(1152, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(data, batch_size=64, num_workers=2, persistent_workers=FIXED)  # guilty
print(f"{train(loader, model, optimizer, max(1, STEPS // BATCHES)):.3f}")
