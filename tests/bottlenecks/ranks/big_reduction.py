"""Averages a table of embeddings after every step: all ranks wait for the network alike.

Straggler: none
"""

import torch
import torch.distributed as dist
from together import RANKS, STEPS, on_all_ranks
from torch import nn


def train(rank):
    torch.manual_seed(0)
    table = nn.Embedding(40_000, 64)
    head = nn.Linear(64, 8)
    optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        head(table(torch.randint(40_000, (256,)))).square().mean().backward()
        for parameter in (table.weight, *head.parameters()):
            dist.all_reduce(parameter.grad)
            parameter.grad /= RANKS
        optimizer.step()


if __name__ == "__main__":
    on_all_ranks(train)
