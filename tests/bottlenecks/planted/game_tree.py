"""Plays a game against itself: a tree of positions, each of which knows its parent.

Problem: garbage-collection
Needs: torch
"""

import gc
import os
import random

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "140"))
FIXED = os.environ.get("FIXED") == "1"


class Position:
    def __init__(self, parent, move):
        self.parent = parent
        self.move = move
        self.children = []  # guilty
        self.visits = {}  # guilty


def grown(positions):
    root = Position(None, 0)
    known = [root]
    for move in range(positions):
        parent = known[move // 3]
        child = Position(parent, move)  # guilty
        parent.children.append(child)
        known.append(child)
    return root


random.seed(0)
torch.manual_seed(0)
opening_book = [{"moves": [i, i + 1], "won": i % 3, "name": str(i)} for i in range(150_000)]
value = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 1))
optimizer = torch.optim.SGD(value.parameters(), lr=0.01)
if FIXED:
    gc.collect()
    gc.freeze()
else:
    gc.set_threshold(700, 5, 2)  # guilty
played = []
for _ in range(STEPS):
    tree = grown(2500)  # guilty
    played.append([{"move": i} for i in range(1200)])  # guilty
    boards = torch.randn(128, 64)
    wins = torch.full((128, 1), float(len(tree.children)))
    loss = nn.functional.mse_loss(value(boards), wins)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
