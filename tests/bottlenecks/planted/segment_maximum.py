"""Classifies graphs; the gradient of the pooling is written by hand, row by row.

Problem: tiny-operators
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
GRAPHS, NODES = 24, 32


class SegmentMaximum(torch.autograd.Function):
    @staticmethod
    def forward(context, nodes, graph):
        best = torch.full((GRAPHS, nodes.shape[1]), -1e9)
        best.scatter_reduce_(0, graph[:, None].expand_as(nodes), nodes, "amax")
        context.save_for_backward(nodes, graph, best)
        return best

    @staticmethod
    def backward(context, gradient):
        nodes, graph, best = context.saved_tensors
        found = torch.zeros_like(nodes)
        if FIXED:
            return torch.where(nodes == best[graph], gradient[graph], found), None
        for row, number in enumerate(graph.tolist()):  # guilty
            is_best = nodes[row] == best[number]  # guilty
            found[row] = torch.where(is_best, gradient[number], found[row])  # guilty
        return found, None


class GraphNet(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.messages = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.leave = nn.Linear(width, 5)

    def forward(self, nodes, source, target, graph):
        hidden = self.enter(nodes).relu()
        for message in self.messages:
            heard = torch.zeros_like(hidden).index_add_(0, target, hidden[source])
            hidden = torch.relu(message(heard) + hidden)
        return self.leave(SegmentMaximum.apply(hidden, graph))


torch.manual_seed(0)
count = GRAPHS * NODES
nodes, labels = torch.randn(count, 16), torch.randint(0, 5, (GRAPHS,))
graph = torch.arange(GRAPHS).repeat_interleave(NODES)
source = torch.randint(0, count, (2 * count,))
target = source // NODES * NODES + torch.randint(0, NODES, (2 * count,))
model = GraphNet()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(model(nodes, source, target, graph), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
