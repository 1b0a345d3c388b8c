"""Trains a denoiser and asks after every batch whether to stop; the graph is on all the time.

Problem: evaluation-every-step
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"


class Denoiser(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.noise = nn.Sequential(
            nn.Conv2d(1, channels, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(channels, 1, 3, 1, 1),
        )

    def forward(self, inputs):
        return inputs - self.noise(inputs)


class Stopper:
    def __init__(self, patience):
        self.best, self.worse, self.patience = float("inf"), 0, patience

    def wants_to(self, value):
        self.worse = 0 if value < self.best else self.worse + 1
        self.best = min(self.best, value)
        return self.worse > self.patience


def noisy(count):
    clean = torch.rand(count, 1, 24, 24)
    return TensorDataset(clean + 0.2 * torch.randn_like(clean), clean)


class Trainer:
    def __init__(self):
        self.model = Denoiser()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.training = DataLoader(noisy(16 * STEPS), batch_size=16)
        self.validation = DataLoader(noisy(96), batch_size=48)
        self.stopper = Stopper(patience=10_000)

    def validate(self):
        total = 0.0
        for inputs, wanted in self.validation:
            total += nn.functional.mse_loss(self.model(inputs), wanted).item()  # guilty
        return total

    def fit(self):
        for step, (inputs, wanted) in enumerate(self.training):
            loss = nn.functional.mse_loss(self.model(inputs), wanted)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if FIXED and step % 50:
                continue
            if self.stopper.wants_to(self.validate()):  # guilty
                break
        return loss.item()


torch.manual_seed(0)
print(f"{Trainer().fit():.4f}")
