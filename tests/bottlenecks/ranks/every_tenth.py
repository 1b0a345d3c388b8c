"""Trains with DDP; one rank writes its diary after every tenth step.

Straggler: sleep, passing
"""

import time

import torch
from together import LATE, STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def write_diary():
    time.sleep(0.15)  # guilty


def train(rank):
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(64, 64)).square().mean().backward()
        optimizer.step()
        if rank == LATE and step % 10 == 9:
            write_diary()


if __name__ == "__main__":
    on_all_ranks(train)
