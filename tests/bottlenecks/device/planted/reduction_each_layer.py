"""Waits for a reduction after every layer (a kernel stands in for NCCL's).

Problem: exposed-communication
Needs: torch, cupy
"""

import os

import cupy
import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"

torch.manual_seed(0)
source = """
extern "C" __global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(float* x, long long cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  x[threadIdx.x] += 1.0f;
}
"""
reduce_kernel = cupy.RawKernel(source, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
buffer = cupy.zeros(256, cupy.float32)


def all_reduce(stream, cycles):
    with cupy.cuda.ExternalStream(stream.cuda_stream):
        reduce_kernel((8,), (256,), (buffer, cupy.int64(cycles)))  # guilty


model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(6))).cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
side = torch.cuda.Stream()

with torch.inference_mode():
    for _ in range(STEPS):
        y = x
        for layer in model:
            y = layer(y)
            if not FIXED:
                side.wait_stream(torch.cuda.current_stream())
                all_reduce(side, 2_000_000)  # guilty
                torch.cuda.current_stream().wait_stream(side)
torch.cuda.synchronize()
