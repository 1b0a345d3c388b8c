"""Trains a language model and loses nothing if the power fails.

Problem: checkpoint-every-step, waiting-io
Needs: torch
"""

import os
import tempfile
from pathlib import Path

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"


class Bigram(nn.Module):
    def __init__(self, words=4000, width=256):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens)))


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, folder / "last.pt")  # guilty


def main(folder: Path) -> None:
    torch.manual_seed(0)
    model = Bigram()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    text = torch.randint(0, 4000, (49,))
    for step in range(STEPS):
        loss = nn.functional.cross_entropy(model(text[:-1]), text[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not FIXED or step == STEPS - 1:
            save(folder, model, optimizer, step)  # guilty
    print(f"{loss.item():.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
