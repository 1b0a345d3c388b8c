"""Trains a small model on letters that its Dataset encodes one by one.

Problem: data-loading
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"


class Letters(Dataset):
    def __init__(self):
        self.texts = [f"a quick brown fox {i} jumps over lazy dogs " * 12 for i in range(100)]
        self.known = [self.encoded(text) for text in self.texts] if FIXED else []

    def __len__(self):
        return STEPS * 8

    def encoded(self, text):
        codes = []
        for letter in text:  # guilty
            codes.append((ord(letter) * 31 + len(codes)) % 256)  # guilty
        return torch.tensor(codes[:400])  # guilty

    def __getitem__(self, index):
        index %= len(self.texts)
        return self.known[index] if FIXED else self.encoded(self.texts[index])  # guilty


torch.manual_seed(0)
model = nn.Sequential(nn.EmbeddingBag(256, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(model.parameters())
for batch in DataLoader(Letters(), batch_size=8):  # guilty
    loss = nn.functional.cross_entropy(model(batch), batch[:, 0] % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
