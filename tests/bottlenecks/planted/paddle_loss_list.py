"""Evaluates a model in Paddle and keeps the loss of each batch for a plot.

Problem: graph-kept, memory-growth, autograd-in-inference
Needs: paddle
Gain: not of time
"""

import os

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "100"))
FIXED = os.environ.get("FIXED") == "1"


class Evaluation:
    def __init__(self, model):
        self.model = model
        self.losses = []

    def add(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)  # guilty
        self.losses.append(float(loss) if FIXED else loss)  # guilty


paddle.seed(0)
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU())
model.eval()
evaluation = Evaluation(model)
for _ in range(STEPS):
    x = paddle.randn([512, 64])
    evaluation.add(x, paddle.zeros([512, 512]))
print(round(sum(float(loss) for loss in evaluation.losses) / STEPS, 3))
