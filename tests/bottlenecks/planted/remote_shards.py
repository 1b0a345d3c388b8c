"""Trains from a storage that is far away, read by one worker of the DataLoader.

Problem: data-loading
Needs: torch
"""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "60"))
WORKERS = 4 if os.environ.get("FIXED") == "1" else 1
BATCH = 32


class RemoteShards(Dataset):
    """Each item is a request over the network."""

    def __init__(self, count):
        self.count = count
        self.items = torch.randn(256, 3, 32, 32)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.002)  # guilty
        return self.items[index % 256], index % 10


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.Flatten()
    )
    head = nn.Linear(2048, 10)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
    loader = DataLoader(
        RemoteShards(STEPS * BATCH), batch_size=BATCH, num_workers=WORKERS
    )  # guilty
    for images, labels in loader:  # guilty
        loss = nn.functional.cross_entropy(head(model(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
