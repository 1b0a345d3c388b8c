"""Trains on one core a rank; other programs run on the core of one of them.

Straggler: CPU contention
"""

import os
import subprocess
import sys

import torch
from together import LATE, STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

NEIGHBOURS = 4


def take_a_core(rank):
    cores = sorted(os.sched_getaffinity(0))
    others = cores[1:] or cores
    mine = cores[0] if rank == LATE else others[rank % len(others)]
    os.sched_setaffinity(0, {mine})
    busy = [sys.executable, "-S", "-c", "while True: pass"]
    return [subprocess.Popen(busy) for _ in range(NEIGHBOURS if rank == LATE else 0)]  # guilty


def train(rank):
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    neighbours = take_a_core(rank)
    try:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(256, 128)).square().mean().backward()
            optimizer.step()
    finally:
        for neighbour in neighbours:
            neighbour.kill()


if __name__ == "__main__":
    on_all_ranks(train)
