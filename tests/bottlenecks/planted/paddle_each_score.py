"""Ranks documents in Paddle and reads each score on its own.

Problem: scalar-reads, python-work
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "160"))
FIXED = os.environ.get("FIXED") == "1"


class Ranker(nn.Layer):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, documents):
        return self.net(documents).squeeze(1)

    @paddle.no_grad()
    def best(self, documents):
        scores = self(documents)
        if FIXED:
            return int(scores.argmax())
        best, best_score = 0, float("-inf")
        for i in range(scores.shape[0]):
            score = scores[i].item()  # guilty
            if score > best_score:
                best, best_score = i, score
        return best


paddle.seed(0)
ranker = Ranker()
ranker.eval()
chosen = []
for _ in range(STEPS):
    documents = paddle.randn([512, 128])
    chosen.append(ranker.best(documents))  # guilty
print(len(set(chosen)))
