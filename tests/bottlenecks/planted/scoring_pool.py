"""Scores requests with one model in many threads.

Problem: too-many-threads
Needs: torch
"""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "160"))
FIXED = os.environ.get("FIXED") == "1"
CORES = 1 if FIXED else 32  # of the machine that it was written on


class Scorer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv1d(8, 64, 9, padding=4), nn.ReLU(), nn.Conv1d(64, 64, 9, padding=4), nn.ReLU()
        ).eval()
        self.head = nn.Linear(64, 1).eval()

    @torch.inference_mode()
    def __call__(self, signal):
        return self.head(self.model(signal).mean(2)).sum().item()  # guilty


def main():
    scorer = Scorer()
    signals = torch.randn(16, 8, 8, 256)
    workers = 2 if FIXED else 8
    with ThreadPoolExecutor(workers, "scorer", torch.set_num_threads, (CORES,)) as pool:  # guilty
        scores = list(pool.map(scorer, (signals[i % 16] for i in range(STEPS))))  # guilty
    print(f"{sum(scores):.2f}")


if __name__ == "__main__":
    main()
