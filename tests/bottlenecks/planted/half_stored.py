"""Searches neighbours in an index that is stored in half precision.

Problem: redundant-copies
Needs: torch
"""

import os

import torch

STEPS = int(os.environ.get("STEPS", "130"))
FIXED = os.environ.get("FIXED") == "1"


class Index:
    def __init__(self, vectors):
        self.vectors = vectors.half()
        self.ready = vectors.half().float() if FIXED else None

    def search(self, queries, count=10):
        vectors = self.ready
        if vectors is None:
            vectors = self.vectors.float()  # guilty
        scores = queries @ vectors.T
        return scores.topk(count).indices


torch.manual_seed(0)
index = Index(torch.randn(60_000, 128))
found = torch.zeros(60_000, dtype=torch.long)
with torch.inference_mode():
    for _ in range(STEPS):
        neighbours = index.search(torch.randn(8, 128))
        found.scatter_add_(0, neighbours.flatten(), torch.ones(80, dtype=torch.long))
print(found.max().item())
