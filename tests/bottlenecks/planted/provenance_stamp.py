"""Trains a small language model and notes at each step on what machine that was.

Problem: programs-started, waiting-io
Needs: torch
"""

import os
import subprocess

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"


class Machine:
    def __init__(self):
        self.known = None

    def ask(self, *words):
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout  # guilty

    def describe(self):
        if FIXED and self.known is not None:
            return self.known
        self.known = {"kernel": self.ask("uname", "-r")}
        self.known["name"] = self.ask("uname", "-n")
        self.known["disk"] = self.ask("df", "-h", "/")
        return self.known


class Model(nn.Module):
    def __init__(self, words=300, width=96):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.memory = nn.LSTM(width, width, batch_first=True)
        self.next = nn.Linear(width, words)

    def forward(self, text):
        return self.next(self.memory(self.words(text))[0])


torch.manual_seed(0)
machine, model, diary = Machine(), Model(), []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
text = torch.randint(0, 300, (8, 33))
for step in range(STEPS):
    guess = model(text[:, :-1]).flatten(0, 1)
    loss = nn.functional.cross_entropy(guess, text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    diary.append({"step": step, **machine.describe()})
print(len(diary))
