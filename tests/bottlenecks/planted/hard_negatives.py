"""Picks the pairs to train on by comparing one score after the other.

Problem: scalar-reads
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "50"))
FIXED = os.environ.get("FIXED") == "1"


def too_close(scores, margin=0.02):
    if FIXED:
        return torch.nonzero(scores > margin).flatten()
    chosen = []
    for index, score in enumerate(scores):  # guilty
        if score > margin:  # guilty
            chosen.append(index)
    return torch.tensor(chosen, dtype=torch.long)


torch.manual_seed(0)
words = nn.Embedding(2000, 128)
project = nn.Linear(128, 128)
optimizer = torch.optim.SGD([*words.parameters(), *project.parameters()], lr=0.1)
for _ in range(STEPS):
    ids = torch.randint(0, 2000, (1500,))
    scores = nn.functional.cosine_similarity(project(words(ids)), words(ids))
    loss = scores[too_close(scores.detach())].mean()  # guilty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
