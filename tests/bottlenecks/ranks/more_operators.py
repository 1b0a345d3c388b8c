"""Trains a network whose auxiliary loss one rank alone computes, in many operators.

Straggler: operators
"""

import torch
from together import LATE, STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def smoothness(weight):
    total = weight.new_zeros(())
    for row in weight.detach()[:160]:
        total = total + (row[1:] - row[:-1]).abs().sum() / row.norm()  # guilty
    return total


def train(rank):
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(96, 192), nn.Tanh(), nn.Linear(192, 96))
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(64, 96)
        loss = (model(x) - x).square().mean()
        if rank == LATE:
            loss = loss + 1e-6 * smoothness(model.module[0].weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    on_all_ranks(train)
