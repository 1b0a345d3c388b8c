"""Trains a Wasserstein GAN: five steps of the critic for each one of the generator.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "30"))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784), nn.Tanh())

    def forward(self, count):
        return self.net(torch.randn(count, 64))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))

    def forward(self, images):
        return self.net(images).mean()


def train_critic(generator, critic, optimizer, real):
    loss = critic(generator(len(real)).detach()) - critic(real)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for weight in critic.parameters():
            weight.clamp_(-0.01, 0.01)


torch.manual_seed(0)
generator, critic = Generator(), Critic()
of_generator = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
of_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
images = torch.rand(2048, 784)
for step in range(STEPS):
    for turn in range(5):
        begin = (step * 5 + turn) * 256 % 2048
        train_critic(generator, critic, of_critic, images[begin : begin + 256])
    loss = -critic(generator(256))
    of_generator.zero_grad()
    loss.backward()
    of_generator.step()
print(f"{loss.item():.3f}")
