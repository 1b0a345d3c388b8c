"""Trains an autoencoder and leaves the machine some air in between.

Problem: waiting-sleep
Needs: torch
"""

import os
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
PAUSE_S = 0.0 if os.environ.get("FIXED") == "1" else 0.03


def train(model, batches, steps):
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for step in range(steps):
        batch = batches[step % len(batches)]
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if PAUSE_S:
            time.sleep(PAUSE_S)  # guilty
    return loss.item()


torch.manual_seed(3)
autoencoder = nn.Sequential(
    nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 784)
)
print(train(autoencoder, torch.rand(8, 256, 784), STEPS))
