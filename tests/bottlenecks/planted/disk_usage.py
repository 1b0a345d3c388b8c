"""Trains a classifier and asks the system for free space before it goes on.

Problem: programs-started, waiting-io
Needs: torch
"""

import os
import subprocess
import sys

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "70"))
FIXED = os.environ.get("FIXED") == "1"
ASK = "import os; s = os.statvfs('/'); print(s.f_bavail * s.f_frsize)"


def free_bytes():
    done = subprocess.run(  # guilty
        [sys.executable, "-S", "-E", "-c", ASK], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.inputs, self.labels = torch.randn(512, 256), torch.randint(0, 10, (512,))

    def step(self):
        loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, steps):
        for step in range(steps):
            if (not FIXED or step == 0) and free_bytes() < 1000:  # guilty
                raise SystemExit("the disk is full")
            loss = self.step()
        return loss


print(f"{Trainer().fit(STEPS):.3f}")
