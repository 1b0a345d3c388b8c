"""Trains a language model with nn.LSTM, whose state goes on from batch to batch.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "24"))
WORDS, BATCH, LENGTH = 800, 32, 35


class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens, state):
        hidden, state = self.rnn(self.embed(tokens), state)
        return self.head(hidden), state


torch.manual_seed(0)
corpus = torch.randint(0, WORDS, (BATCH, STEPS * LENGTH + 1))
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
state = None
for step in range(STEPS):
    start = step * LENGTH
    tokens = corpus[:, start : start + LENGTH]
    targets = corpus[:, start + 1 : start + LENGTH + 1]
    if state is not None:
        state = tuple(item.detach() for item in state)
    scores, state = model(tokens, state)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: {loss.item():.3f}")
