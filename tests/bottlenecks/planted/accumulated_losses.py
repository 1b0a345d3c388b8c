"""Accumulates gradients over eight small batches, because a large one would not fit.

Problem: graph-kept, slowing-steps
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "15"))
FIXED = os.environ.get("FIXED") == "1"
PARTS = 8


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.rnn = nn.GRU(64, 96, batch_first=True)
        self.head = nn.Linear(96, 1000)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


def loss_of(model, tokens):
    scores = model(tokens[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()) / PARTS


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    optimizer.zero_grad()
    total = torch.zeros(())
    for _ in range(PARTS):
        loss = loss_of(model, torch.randint(0, 1000, (4, 33)))
        if FIXED:
            loss.backward()
        else:
            total = total + loss  # guilty
            total.backward(retain_graph=True)  # guilty
    optimizer.step()
print(f"{loss.item() * PARTS:.3f}")
