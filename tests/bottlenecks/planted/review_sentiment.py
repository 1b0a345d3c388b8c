"""Learns whether a review is kind.

Problem: data-in-loop, python-work
Needs: torch
Files: toolbox/text.py
"""

import os
import random

import torch
from toolbox.text import Tokenizer
from torch import nn

STEPS = int(os.environ.get("STEPS", "200"))
FIXED = os.environ.get("FIXED") == "1"
LENGTH = 128

random.seed(0)
torch.manual_seed(0)
syllables = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "nrst"]
tokenizer = Tokenizer(syllables)
reviews = [
    " ".join("".join(random.choices(syllables, k=random.randint(2, 5))) for _ in range(60))
    for _ in range(256)
]
kind = torch.randint(0, 2, (256,)).float()


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(syllables), 128)
        self.inner = nn.Linear(128, 512)
        self.head = nn.Linear(512, 1)

    def forward(self, tokens):
        x = self.words(tokens).mean(1)
        return self.head(torch.relu(self.inner(x))).squeeze(1)


model = Sentiment()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
cache = [tokenizer.encode_batch(reviews[i : i + 32], LENGTH) for i in range(0, 256, 32)]
cache = [torch.tensor(tokens) for tokens in cache]
for step in range(STEPS):
    first = step * 32 % 256
    if FIXED:
        tokens = cache[first // 32]
    else:
        encoded = tokenizer.encode_batch(reviews[first : first + 32], LENGTH)  # guilty
        tokens = torch.tensor(encoded)
    scores = model(tokens)
    loss = nn.functional.binary_cross_entropy_with_logits(scores, kind[first : first + 32])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
