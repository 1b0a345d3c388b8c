"""Averages gradients by hand; one rank asks a slow service between its steps.

Straggler: sleep
"""

import time

import torch
import torch.distributed as dist
from together import LATE, RANKS, STEPS, on_all_ranks
from torch import nn


def wait_for_the_service():
    time.sleep(0.03)  # guilty


def train(rank):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        if rank == LATE:
            wait_for_the_service()
        optimizer.zero_grad()
        model(torch.randn(64, 64)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= RANKS
        optimizer.step()


if __name__ == "__main__":
    on_all_ranks(train)
