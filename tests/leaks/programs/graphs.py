"""total += loss keeps the graphs."""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
head = nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
history = []


def train():
    total = 0.0
    for step in range(250):
        x = torch.randn(64, 256)  # allocates
        y = torch.randint(0, 10, (64,))
        loss = head(model(x), y)  # allocates
        opt.zero_grad()
        loss.backward(retain_graph=False)
        opt.step()
        probe = model(x)  # allocates
        total = total + (probe * probe).mean()  # allocates
        if step < 0:
            history.append(loss)  # never runs
    print(float(total))


train()
