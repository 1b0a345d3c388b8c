"""Recommends the next click from sessions, which a function of its own brings into batches.

Problem: tensors-from-lists, data-loading
Needs: torch
"""

import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "220"))
FIXED = os.environ.get("FIXED") == "1"
ITEMS, LENGTH = 500, 200


class Sessions(Dataset):
    def __init__(self, count):
        draw = random.Random(0)
        self.clicks = [[draw.randrange(ITEMS) for _ in range(LENGTH)] for _ in range(64)]
        self.tensors = torch.tensor(self.clicks)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.tensors[index % 64] if FIXED else self.clicks[index % 64]


def collate(sessions):
    if FIXED:
        return torch.stack(sessions)
    return torch.stack(
        [torch.tensor([float(c) for c in each]) for each in sessions]
    ).long()  # guilty


class NextClick(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, 64)
        self.mix = nn.Linear(64, 256)
        self.score = nn.Linear(256, ITEMS)

    def forward(self, clicks):
        return self.score(self.mix(self.items(clicks).mean(1)).relu())


torch.manual_seed(0)
model = NextClick()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Sessions(STEPS * 64), batch_size=64, collate_fn=collate)
for clicks in loader:  # guilty
    loss = nn.functional.cross_entropy(model(clicks[:, :-1]), clicks[:, -1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
