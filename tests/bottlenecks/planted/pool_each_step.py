"""Lets a generator learn from scores that a pool of processes computes.

Problem: processes-started
Needs: torch
"""

import multiprocessing
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"
WANTED = "abcdefghijklmnopqrstuvwxyzabcdefghijklmn"


def grams(text):
    return {text[at : at + 3] for at in range(len(text) - 2)}


def score(text):
    return len(grams(text) & grams(WANTED)) / len(grams(WANTED))


class Judge:
    def __init__(self):
        self.pool = multiprocessing.Pool(2) if FIXED else None

    def __call__(self, texts):
        if self.pool is not None:
            return self.pool.map(score, texts, chunksize=16)
        with multiprocessing.Pool(2) as pool:  # guilty
            return pool.map(score, texts, chunksize=16)


class Writer(nn.Module):
    def __init__(self, letters=26, width=192):
        super().__init__()
        self.places = nn.Parameter(torch.randn(len(WANTED), width))
        self.net = nn.Sequential(nn.Linear(width, 384), nn.ReLU(), nn.Linear(384, letters))

    def forward(self, count):
        scores = self.net(self.places + torch.zeros(count, 1, 1)).log_softmax(-1)
        chosen = torch.multinomial(scores.flatten(0, 1).exp(), 1).view(count, -1)
        return chosen, scores.gather(2, chosen[..., None]).sum((1, 2))


def main():
    torch.manual_seed(0)
    judge, writer = Judge(), Writer()
    optimizer = torch.optim.Adam(writer.parameters(), lr=1e-3)
    for _ in range(STEPS):
        chosen, likelihood = writer(96)
        texts = [bytes(97 + letter for letter in row).decode() for row in chosen.tolist()]
        rewards = torch.tensor(judge(texts))
        loss = -((rewards - rewards.mean()) * likelihood).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{rewards.mean():.3f}")


if __name__ == "__main__":
    main()
