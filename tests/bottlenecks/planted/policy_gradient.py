"""Learns a policy by reinforcement; actions come from torch.distributions.

Problem: library-call, tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn
from torch.distributions import Categorical

STEPS = int(os.environ.get("STEPS", "110"))
FIXED = os.environ.get("FIXED") == "1"
MOVES = 30


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 64)
        self.head = nn.Linear(64, 4)

    def forward(self, state):
        return self.head(torch.tanh(self.body(state)))


def act(scores):
    if FIXED:
        logs = torch.log_softmax(scores, -1)
        action = torch.multinomial(logs.exp(), 1)
        return action.squeeze(-1), logs.gather(-1, action).squeeze(-1)
    choice = Categorical(logits=scores)  # guilty
    action = choice.sample()  # guilty
    return action, choice.log_prob(action)  # guilty


def episode(policy):
    state = torch.zeros(16, 8)
    logs, rewards = [], []
    for _ in range(MOVES):
        action, log = act(policy(state))  # guilty
        state = state.roll(1, 1)
        state[:, 0] = action.float() - 1.5
        logs.append(log)
        rewards.append(-state[:, 0].abs())
    return torch.stack(logs), torch.stack(rewards)


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for _ in range(STEPS):
    logs, rewards = episode(policy)
    gains = rewards.flip(0).cumsum(0).flip(0)
    loss = -(logs * (gains - gains.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
