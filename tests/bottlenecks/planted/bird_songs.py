"""Recognises birds; the Dataset makes a spectrogram of each recording, in the training process.

Problem: data-loading
Needs: torch
"""

import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "90"))
FIXED = os.environ.get("FIXED") == "1"
BATCH = 16


class Songs(Dataset):
    def __init__(self, count):
        rng = np.random.default_rng(0)
        self.recordings = rng.normal(size=(32, 32_000)).astype(np.float32)
        self.count = count
        self.known = {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        index %= len(self.recordings)
        if FIXED and index in self.known:
            return self.known[index]
        windows = np.lib.stride_tricks.sliding_window_view(self.recordings[index], 512)[::256]
        power = np.abs(np.fft.rfft(windows * np.hanning(512), axis=1)) ** 2  # guilty
        picture = np.log(power + 1e-6).astype(np.float32)[:, :128]  # guilty
        self.known[index] = torch.from_numpy(picture)[None], index % 8
        return self.known[index]


class BirdNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 16, 5, 4)
        self.b = nn.Conv2d(16, 32, 3, 2)
        self.out = nn.Linear(32, 8)

    def forward(self, x):
        return self.out(torch.relu(self.b(torch.relu(self.a(x)))).mean((2, 3)))


torch.manual_seed(0)
net = BirdNet()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for pictures, birds in DataLoader(Songs(STEPS * BATCH), batch_size=BATCH):  # guilty
    loss = nn.functional.cross_entropy(net(pictures), birds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
