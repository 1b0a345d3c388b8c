"""Active learning: every step draws its batch from the examples that are labelled by now.

Problem: workers-started
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

STEPS = int(os.environ.get("STEPS", "30"))
FIXED = os.environ.get("FIXED") == "1"


class Examples:
    def __init__(self, count=4000, width=300):
        self.inputs = torch.randn(count, width)
        self.labels = self.inputs[:, :7].argmax(1)
        self.known = list(range(256))

    def label_more(self, count):
        self.known += range(len(self.known), len(self.known) + count)

    def draw(self, size):
        if FIXED:
            chosen = torch.tensor(self.known)[torch.randperm(len(self.known))[:size]]
            return self.inputs[chosen], self.labels[chosen]
        known = Subset(TensorDataset(self.inputs, self.labels), self.known)
        loader = DataLoader(known, batch_size=size, shuffle=True, num_workers=2)  # guilty
        return next(iter(loader))  # guilty


def main():
    torch.manual_seed(0)
    examples = Examples()
    model = nn.Sequential(
        nn.Linear(300, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 7)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        inputs, labels = examples.draw(256)  # guilty
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            examples.label_more(64)
    print(f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
