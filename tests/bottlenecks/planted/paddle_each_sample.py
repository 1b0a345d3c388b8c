"""Trains in Paddle with a loss that is computed sample by sample.

Problem: tiny-operators
Needs: paddle
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "100"))
FIXED = os.environ.get("FIXED") == "1"


def ranking_loss(scores, wanted, margin=0.2):
    if FIXED:
        right = paddle.take_along_axis(scores, wanted.unsqueeze(1), 1)
        return nn.functional.relu(scores - right + margin).mean()
    losses = []
    for i in range(scores.shape[0]):
        right = scores[i][wanted[i]]  # guilty
        losses.append(nn.functional.relu(scores[i] - right + margin).mean())  # guilty
    return paddle.stack(losses).mean()


paddle.seed(0)
tower = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 40))
optimizer = paddle.optimizer.SGD(0.01, parameters=tower.parameters())
queries, wanted = paddle.randn([96, 64]), paddle.randint(0, 40, [96])
for _ in range(STEPS):
    loss = ranking_loss(tower(queries), wanted)  # guilty
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(round(float(loss), 4))
