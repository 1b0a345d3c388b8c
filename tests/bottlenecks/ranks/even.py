"""Trains a perceptron with DDP; all ranks do the same.

Straggler: none
"""

import torch
from together import STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    net = nn.Sequential(
        nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(256, 128)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    on_all_ranks(train)
