"""Trains an autoencoder and writes the whole diary of the experiment after every step.

Problem: writing-in-loop, slowing-steps
Needs: torch
"""

import json
import os
import tempfile

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "250"))
FIXED = os.environ.get("FIXED") == "1"


class Diary:
    def __init__(self, folder):
        self.path = os.path.join(folder, "diary.json")
        self.rows = [{"step": -number, "layers": [0.5] * 12} for number in range(400)]

    def note(self, **row):
        self.rows.append(row)
        if FIXED:
            with open(self.path, "a") as file:
                file.write(json.dumps(row) + "\n")
            return
        with open(self.path + ".new", "w") as file:
            json.dump(self.rows, file, indent=1, sort_keys=True)  # guilty
        os.replace(self.path + ".new", self.path)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 24), nn.Linear(24, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs = torch.randn(512, 256)
with tempfile.TemporaryDirectory() as folder:
    diary = Diary(folder)
    for step in range(STEPS):
        loss = nn.functional.mse_loss(model(inputs), inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        diary.note(step=step, rate=optimizer.param_groups[0]["lr"])  # guilty
print(f"{loss.item():.3f}")
