"""Trains a small transformer while a thread looks after its own statistics.

Problem: gil-contention
Needs: torch
"""

import os
import threading
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class Monitor(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.history = [0.0] * 5000
        self.running = True
        self.mean = 0.0

    def run(self):
        while self.running:
            total = 0.0
            for value in self.history:  # guilty
                total += value * value  # guilty
            self.mean = (total / len(self.history)) ** 0.5
            if FIXED:
                time.sleep(1.0)


torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(100, 32), nn.TransformerEncoder(layer, 1), nn.Linear(32, 100))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.randint(0, 100, (8, 24))
monitor = Monitor()
monitor.start()  # guilty
for step in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    monitor.history[step % 5000] = loss.item()
monitor.running = False
print(f"{loss.item():.3f}")
