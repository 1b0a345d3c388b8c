"""Trains with a callback that keeps the best weights as a file; in the beginning all are the best.

Problem: checkpoint-every-step, waiting-io, library-call
Needs: torch
"""

import os
import pickle
import tempfile

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
FIXED = os.environ.get("FIXED") == "1"


class KeepBest:
    def __init__(self, path):
        self.path = path
        self.best = float("inf")
        self.saved = 0.0

    def on_step_end(self, model, loss):
        enough = 0.9 * self.saved if FIXED and self.saved else float("inf")
        if loss < min(self.best, enough):
            self.best = self.saved = loss
            weights = {name: value.numpy() for name, value in model.state_dict().items()}
            with open(self.path, "wb") as file:
                pickle.dump(weights, file)  # guilty


class Loop:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def run(self, inputs, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(inputs), inputs)
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_step_end(self.model, loss.item())  # guilty
        return loss.item()


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(512, 1024), nn.Tanh(), nn.Linear(1024, 512))
    loop = Loop(network, [KeepBest(os.path.join(folder, "best.pkl"))])
    print(f"{loop.run(torch.randn(16, 512), STEPS):.3f}")
