"""Teaches a small model what a large one knows.

Problem: autograd-in-inference
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


def network(width, depth):
    layers = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def difference(student, teacher, temperature=2.0):
    ours = torch.log_softmax(student / temperature, 1)
    theirs = torch.log_softmax(teacher / temperature, 1)
    return nn.functional.kl_div(ours, theirs, log_target=True, reduction="batchmean")


torch.manual_seed(0)
teacher, student = network(512, 3).eval(), network(192, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(STEPS):
    inputs = torch.randn(384, 64)
    if FIXED:
        with torch.no_grad():
            wanted = teacher(inputs)
    else:
        wanted = teacher(inputs)  # guilty
    loss = difference(student(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()  # guilty
    optimizer.step()
print(f"{loss.item():.4f}")
