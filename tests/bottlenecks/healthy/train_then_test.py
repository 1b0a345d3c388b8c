"""Trains a network, evaluates it after the last step, and saves it.

Problem: none
Needs: torch
"""

import os
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "30"))


def made(count):
    inputs = torch.randn(count, 128)
    return TensorDataset(inputs, inputs[:, :8].argmax(1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(inputs).argmax(1) == labels).sum() for inputs, labels in loader)
    return right.item() / len(loader.dataset)


def train(model, loader):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
network = nn.Sequential(
    nn.Linear(128, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU()
)
network.append(nn.Linear(1024, 8))
train(network, DataLoader(made(STEPS * 512), batch_size=512, shuffle=True))
print(f"{accuracy(network, DataLoader(made(8192), batch_size=1024)):.3f}")
with tempfile.TemporaryDirectory() as folder:
    torch.save(network.state_dict(), Path(folder) / "network.pt")
