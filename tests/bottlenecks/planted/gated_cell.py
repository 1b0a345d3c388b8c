"""Predicts a time series with a recurrent cell that was written by hand.

Problem: tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "30"))
FIXED = os.environ.get("FIXED") == "1"


class HandMadeLSTM(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        names = ("forget", "keep", "new", "out")
        self.gates = nn.ModuleDict({name: nn.Linear(inputs + width, width) for name in names})
        self.width = width

    def forward(self, series):
        hidden = cell = series.new_zeros(series.shape[0], self.width)
        outputs = []
        for t in range(series.shape[1]):
            both = torch.cat([series[:, t], hidden], 1)  # guilty
            forget = torch.sigmoid(self.gates["forget"](both))  # guilty
            keep = torch.sigmoid(self.gates["keep"](both))  # guilty
            new = torch.tanh(self.gates["new"](both))  # guilty
            out = torch.sigmoid(self.gates["out"](both))  # guilty
            cell = forget * cell + keep * new  # guilty
            hidden = out * torch.tanh(cell)  # guilty
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 8))
        self.cell = nn.LSTM(8, 24, batch_first=True) if FIXED else HandMadeLSTM(8, 24)
        self.head = nn.Linear(24, 1)

    def forward(self, series):
        out = self.cell(self.encode(series))  # guilty
        return self.head(out[0] if FIXED else out)


torch.manual_seed(0)
forecast = Forecast()
optimizer = torch.optim.SGD(forecast.parameters(), lr=0.01)
series = torch.randn(16, 100, 4).cumsum(1)
for _ in range(STEPS):
    loss = nn.functional.l1_loss(forecast(series[:, :-1]), series[:, 1:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
