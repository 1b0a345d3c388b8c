"""Trains a classifier on records that one rank's shard has compressed.

Straggler: data loading
"""

import zlib

import numpy as np
import torch
from together import LATE, STEPS, on_all_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Shard(Dataset):
    def __init__(self, compressed):
        plain = np.random.default_rng(0).integers(0, 9, 200_000).astype(np.int64).tobytes()
        self.compressed = compressed
        self.data = zlib.compress(plain, 1) if compressed else plain

    def __len__(self):
        return 8 * STEPS

    def __getitem__(self, index):
        data = zlib.decompress(self.data) if self.compressed else self.data  # guilty
        record = np.frombuffer(data, np.int64, 128, offset=8 * index)
        return torch.from_numpy(record.copy()).float()


def train(rank):
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    )
    optimizer = torch.optim.Adam(model.parameters())
    for batch in DataLoader(Shard(compressed=rank == LATE), batch_size=8):
        loss = model(batch).logsumexp(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    on_all_ranks(train)
