"""Trains a regression while a thread writes statistics to disk now and then.

Problem: waiting-lock
Needs: torch
"""

import os
import tempfile
import threading
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"


class Statistics:
    """Losses that are written to a slow disk by a thread of their own."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.losses = []
        self.done = threading.Event()
        self.writer = threading.Thread(target=self.write_often, daemon=True)
        self.writer.start()

    def add(self, loss):
        with self.lock:  # guilty
            self.losses.append(loss)

    def write_often(self):
        while not self.done.wait(0.01):
            if FIXED:
                with self.lock:
                    losses = list(self.losses)
                self.write(losses)
            else:
                with self.lock:  # guilty
                    self.write(self.losses)  # guilty

    def write(self, losses):
        with open(self.path, "w") as file:
            file.writelines(f"{loss}\n" for loss in losses)
        time.sleep(0.04)  # as long as the disk takes to say that it is written

    def close(self):
        self.done.set()
        self.writer.join()


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(0)
    statistics = Statistics(os.path.join(folder, "losses.txt"))
    model = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 512), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(256, 128), torch.randn(256, 1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        statistics.add(loss.item())  # guilty
    statistics.close()
    print(len(statistics.losses), "losses")
