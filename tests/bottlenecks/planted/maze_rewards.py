"""Teaches a walker the way through a maze; each step is rewarded by how much nearer it came.

Problem: python-work
Needs: torch
"""

import heapq
import os
import random

import torch
from torch import nn
from torch.distributions import Categorical

STEPS = int(os.environ.get("STEPS", "40"))
FIXED = os.environ.get("FIXED") == "1"
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]


class Maze:
    def __init__(self, size):
        chance = random.Random(3)
        self.size = size
        self.walls = {(chance.randrange(size), chance.randrange(size)) for _ in range(size * 4)}
        self.walls -= {(0, 0), (size - 1, size - 1)}
        self.known = {}

    def begin(self):
        self.place, self.steps = (0, 0), 0
        return self.seen()

    def seen(self):
        around = [float(self.is_free(self.beside(self.place, move))) for move in MOVES]
        return torch.tensor([self.place[0] / self.size, self.place[1] / self.size, *around])

    def beside(self, place, move):
        return place[0] + move[0], place[1] + move[1]

    def is_free(self, place):
        return min(place) >= 0 and max(place) < self.size and place not in self.walls  # guilty

    def distance(self, start):
        if FIXED and start in self.known:
            return self.known[start]
        ways, been = [(0, start)], set()
        self.known[start] = self.size**2
        while ways:
            far, place = heapq.heappop(ways)  # guilty
            if place == (self.size - 1, self.size - 1):
                self.known[start] = far
                break
            if place not in been:
                been.add(place)
                for move in MOVES:
                    there = self.beside(place, move)  # guilty
                    if self.is_free(there) and there not in been:  # guilty
                        heapq.heappush(ways, (far + 1, there))  # guilty
        return self.known[start]

    def walk(self, move):
        before = self.distance(self.place)
        there = self.beside(self.place, MOVES[move])
        if self.is_free(there):
            self.place = there
        self.steps += 1
        return self.seen(), before - self.distance(self.place) - 0.01, self.steps >= 30


torch.manual_seed(0)
maze = Maze(18)
policy = nn.Sequential(nn.Linear(6, 128), nn.Tanh(), nn.Linear(128, 4))
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
for _ in range(STEPS):
    seen, is_over, chosen, rewards = maze.begin(), False, [], []
    while not is_over:
        moves = Categorical(logits=policy(seen), validate_args=False)
        move = moves.sample()
        seen, reward, is_over = maze.walk(int(move))
        chosen.append(moves.log_prob(move))
        rewards.append(reward)
    loss = -(torch.stack(chosen) * torch.tensor(rewards).flip(0).cumsum(0).flip(0)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.2f}")
