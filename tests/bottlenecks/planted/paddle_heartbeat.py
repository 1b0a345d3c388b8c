"""Finds heart beats in Paddle; each window is filtered in NumPy just before it is used.

Problem: data-in-loop, python-work
Needs: paddle
"""

import os

import numpy as np
import paddle
from paddle import nn

STEPS = int(os.environ.get("STEPS", "90"))
FIXED = os.environ.get("FIXED") == "1"


def band_pass(signals, low, high):
    spectrum = np.fft.rfft(signals, axis=-1)  # guilty
    spectrum[..., :low] = 0
    spectrum[..., high:] = 0
    return np.fft.irfft(spectrum, axis=-1)  # guilty


def windows(signals):
    clean = band_pass(signals, 3, 400)  # guilty
    clean -= np.median(clean, axis=-1, keepdims=True)  # guilty
    clean /= np.abs(clean).max(axis=-1, keepdims=True)
    return clean.astype(np.float32)[:, None, ::4]


class Beats(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1D(1, 16, 16, 8), nn.ReLU(), nn.Conv1D(16, 32, 4, 2))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.conv(x).mean(2))


paddle.seed(0)
signals = np.random.default_rng(0).normal(size=(64, 4000)).cumsum(1)
labels = paddle.randint(0, 2, [64])
model = Beats()
optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
once = windows(signals)
for _ in range(STEPS):
    inputs = once if FIXED else windows(signals)  # guilty
    loss = nn.functional.cross_entropy(model(paddle.to_tensor(inputs)), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(round(float(loss), 3))
