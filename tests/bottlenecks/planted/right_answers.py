"""Evaluates a classifier and counts its right answers, one by one.

Problem: scalar-reads, python-work
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "150"))
FIXED = os.environ.get("FIXED") == "1"


def count_right(scores, labels):
    right = 0
    for i in range(len(labels)):
        if scores[i].argmax().item() == labels[i].item():  # guilty
            right += 1
    return right


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    right = total = 0
    for inputs, labels in batches:
        scores = model(inputs)
        if FIXED:
            right += (scores.argmax(1) == labels).sum().item()
        else:
            right += count_right(scores, labels)  # guilty
        total += len(labels)
    return right / total


torch.manual_seed(0)
classifier = nn.Sequential(
    nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 20)
)
shards = [(torch.randn(768, 512), torch.randint(0, 20, (768,))) for _ in range(6)]
batches = (shards[i % len(shards)] for i in range(STEPS))
print(f"{evaluate(classifier, batches):.3f}")
