"""Trains a Wasserstein GAN whose gradient penalty looks at one sample after the other.

Problem: tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"


def net(enter, width, leave):
    return nn.Sequential(
        nn.Linear(enter, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, leave),
    )


class Game:
    def __init__(self):
        self.maker, self.critic = net(32, 160, 96), net(96, 160, 1)
        self.makers = torch.optim.SGD(self.maker.parameters(), lr=1e-4)
        self.critics = torch.optim.SGD(self.critic.parameters(), lr=1e-4)

    def slope(self, samples):
        samples = samples.requires_grad_()
        score = self.critic(samples).sum()  # guilty
        (found,) = torch.autograd.grad(score, samples, create_graph=True)  # guilty
        return ((found.norm(dim=1) - 1) ** 2).sum()  # guilty

    def penalty(self, real, made):
        part = torch.rand(len(real), 1)
        mixed = (part * real + (1 - part) * made).detach()
        if FIXED:
            return 10 * self.slope(mixed) / len(mixed)
        return (
            10 * sum(self.slope(mixed[row : row + 1]) for row in range(len(mixed))) / len(mixed)
        )  # guilty

    def teach_critic(self, real):
        made = self.maker(torch.randn(len(real), 32)).detach()
        loss = self.critic(made).mean() - self.critic(real).mean() + self.penalty(real, made)
        self.critics.zero_grad()
        loss.backward()
        self.critics.step()

    def teach_maker(self, count):
        loss = -self.critic(self.maker(torch.randn(count, 32))).mean()
        self.makers.zero_grad()
        loss.backward()
        self.makers.step()
        return loss


torch.manual_seed(0)
game, data = Game(), torch.randn(4096, 96)
for _ in range(STEPS):
    game.teach_critic(data[torch.randint(0, 4096, (48,))])
    loss = game.teach_maker(48)
print(f"{loss.item():.3f}")
