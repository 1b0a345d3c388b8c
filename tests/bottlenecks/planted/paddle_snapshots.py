"""Trains a translation model in Paddle and saves it in every step.

Problem: checkpoint-every-step, waiting-io
Needs: paddle
"""

import os
import tempfile

import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "110"))
FIXED = os.environ.get("FIXED") == "1"


class Translator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(3000, 128)
        self.mix = nn.Linear(128, 256)
        self.target = nn.Linear(256, 3000)

    def forward(self, tokens):
        return self.target(self.mix(self.source(tokens)).tanh())


class Snapshots:
    def __init__(self, folder, layer, optimizer):
        self.folder, self.layer, self.optimizer = folder, layer, optimizer

    def __call__(self, step):
        if FIXED and step % 100 != 99:
            return
        state = {"layer": self.layer.state_dict(), "optimizer": self.optimizer.state_dict()}
        paddle.save(state, os.path.join(self.folder, "last.pdparams"))  # guilty


with tempfile.TemporaryDirectory() as folder:
    paddle.seed(0)
    model = Translator()
    optimizer = paddle.optimizer.Momentum(0.1, parameters=model.parameters())
    snapshot = Snapshots(folder, model, optimizer)
    tokens = paddle.randint(0, 3000, [16])
    for step in range(STEPS):
        loss = nn.functional.cross_entropy(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        snapshot(step)  # guilty
    print(round(float(loss), 3))
