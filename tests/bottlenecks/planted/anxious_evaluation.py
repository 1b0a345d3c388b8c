"""Trains a classifier and looks after every step how good it is by now.

Problem: evaluation-every-step
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in loader:
            right += (model(inputs).argmax(1) == labels).sum()  # guilty
    model.train()
    return right.item() / len(loader.dataset)


def made(count):
    inputs = torch.randn(count, 1, 28, 28)
    return TensorDataset(inputs, inputs.mean((1, 2, 3)).gt(0).long())


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 5, 2),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Conv2d(16, 32, 3, 2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(800, 2),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training = DataLoader(made(STEPS * 128), batch_size=128)
validation = DataLoader(made(1024), batch_size=256)
best = 0.0
for step, (inputs, labels) in enumerate(training):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if not FIXED or step == STEPS - 1:
        best = max(best, evaluate(model, validation))  # guilty
print(f"{best:.2f}")
