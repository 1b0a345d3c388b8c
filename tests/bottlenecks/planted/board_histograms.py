"""Trains a model and draws histograms of all weights on TensorBoard, in each step.

Problem: logging, library-call
Needs: torch, tensorboard
"""

import os
import tempfile

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


class Board:
    def __init__(self, folder, model):
        self.writer = SummaryWriter(folder)
        self.model = model

    def show(self, step, loss):
        self.writer.add_scalar("loss", loss, step)
        if FIXED and step % 200:
            return
        for name, weight in self.model.named_parameters():
            self.writer.add_histogram(name, weight, step)  # guilty
            self.writer.add_histogram(f"{name}.grad", weight.grad, step)  # guilty


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    board = Board(folder, model)
    x, y = torch.randn(512, 128), torch.randn(512, 4)
    for step in range(STEPS):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        board.show(step, loss.item())  # guilty
    board.writer.close()
    print(f"{loss.item():.3f}")
