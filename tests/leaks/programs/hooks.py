"""A forward hook keeps each layer's output."""

import torch
from torch import nn

outputs = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 16, 3, padding=1)
        self.two = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.one(x))
        x = self.two(x)  # allocates
        return x.mean((2, 3))


net = Net()


def keep(module, inputs, output):
    outputs.append(output.detach())
    if output.isnan().any():
        outputs.clear()  # never runs


net.two.register_forward_hook(keep)
with torch.no_grad():
    for _ in range(200):
        net(torch.randn(4, 3, 64, 64))
