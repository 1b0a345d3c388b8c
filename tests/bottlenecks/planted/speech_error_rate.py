"""Trains a small speech model and keeps an eye on its character error rate.

Problem: python-work
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
LETTERS = "abcdefghijklmnopqrstuvwxyz '"


def edit_distance(said: str, heard: str) -> int:
    previous = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        current = [i]
        for j, b in enumerate(heard, 1):
            cost = previous[j - 1] + (a != b)  # guilty
            current.append(min(previous[j] + 1, current[j - 1] + 1, cost))  # guilty
        previous = current
    return previous[-1]


def decode(scores: torch.Tensor) -> list[str]:
    return ["".join(LETTERS[i] for i in row) for row in scores.argmax(-1).tolist()]


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(40, 96, 5, padding=2)
        self.body = nn.Sequential(nn.ReLU(), nn.Conv1d(96, 96, 5, padding=2), nn.ReLU())
        self.head = nn.Linear(96, len(LETTERS))

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.conv(sound)).transpose(1, 2))


def main() -> None:
    torch.manual_seed(0)
    model = Speech()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sound = torch.randn(16, 40, 60)
    labels = torch.randint(0, len(LETTERS), (16, 60))
    texts = ["".join(LETTERS[i] for i in row) for row in labels.tolist()]
    rate = 0.0
    for step in range(STEPS):
        scores = model(sound)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not FIXED or step == STEPS - 1:
            pairs = zip(texts, decode(scores), strict=True)
            errors = sum(edit_distance(said, heard) for said, heard in pairs)  # guilty
            rate = errors / labels.numel()
    print(f"character error rate {rate:.2f}")


if __name__ == "__main__":
    main()
