"""Trains a student beside its mean teacher, whose weights are averaged by hand.

Problem: work-without-gradient
Needs: torch
"""

import copy
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"


class Student(nn.Module):
    def __init__(self, width=384, depth=12):
        super().__init__()
        self.enter = nn.Linear(64, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, 10)

    def forward(self, inputs):
        hidden = self.enter(inputs).relu()
        for layer in self.layers:
            hidden = hidden + layer(hidden).relu()
        return self.leave(hidden)


class Teacher:
    def __init__(self, student, keep=0.99):
        self.student = student
        self.keep = keep
        self.model = copy.deepcopy(student)

    @torch.no_grad()
    def follow(self):
        if FIXED:
            mine, theirs = list(self.model.parameters()), list(self.student.parameters())
            torch._foreach_lerp_(mine, theirs, 1 - self.keep)
            return
        before = copy.deepcopy(self.model)  # guilty
        wanted = copy.deepcopy(self.student).state_dict()  # guilty
        for name, old in before.state_dict().items():
            wanted[name] = self.keep * old + (1 - self.keep) * wanted[name]  # guilty
        self.model.load_state_dict(wanted)  # guilty

    @torch.no_grad()
    def __call__(self, inputs):
        return self.model(inputs)


torch.manual_seed(0)
student = Student()
teacher = Teacher(student)
optimizer = torch.optim.SGD(student.parameters(), lr=1e-3)
inputs, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
for _ in range(STEPS):
    outputs = student(inputs)
    loss = nn.functional.cross_entropy(outputs, labels)
    loss = loss + nn.functional.mse_loss(outputs, teacher(inputs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    teacher.follow()  # guilty
print(f"{loss.item():.3f}")
