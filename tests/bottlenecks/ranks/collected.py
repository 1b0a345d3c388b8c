"""Trains while one rank keeps a large cache of small objects, which the collector goes through.

Straggler: garbage collection
"""

import gc

import torch
from together import LATE, STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Sample:
    def __init__(self, number):
        self.number = number
        self.tags = {"number": number, "seen": []}


def train(rank):
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cache = [Sample(0)]
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(128, 64)).pow(2).mean()
        loss.backward()
        optimizer.step()
        if step == 1:  # all that torch has imported is there
            gc.freeze()
            cache = [Sample(i) for i in range(150_000 if rank == LATE else 100)]
        cache[step % len(cache)].tags["seen"].append(step)
        gc.collect()  # guilty


if __name__ == "__main__":
    on_all_ranks(train)
