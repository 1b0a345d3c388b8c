"""Replays a captured CUDA graph of a model.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "300"))

torch.manual_seed(0)
layers = [nn.Sequential(nn.LayerNorm(2048), nn.Linear(2048, 2048), nn.GELU()) for _ in range(24)]
model = nn.Sequential(*layers).cuda().bfloat16().eval()
x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(3):
        model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    for _ in range(STEPS):
        graph.replay()
torch.cuda.synchronize()
