"""CUDA graphs on a real device: who owns a replayed kernel, and what watching captures costs.

Run it with the python3 of a machine with an NVIDIA GPU. A GPT-like model is captured by hand and by
``torch.compile(mode="reduce-overhead")``; each is replayed under Stepscope. The shares are of the
time of the graphs' kernels.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

import stepscope
from stepscope.analysis.device.launches import captured_nodes
from stepscope.analysis.device.work import device_work
from stepscope.analysis.host.sampled_stacks import own_path
from stepscope.frameworks.cuda.captures import leave_captures, watch_captures
from stepscope.frameworks.cuda.idle import _captures
from stepscope.trace.model import NO_SLICE, SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace

MIN_OPERATOR, MIN_LINE, MAX_CAPTURE = 0.99, 0.95, 1.03
REPLAYS, CAPTURES = 20, 15


class Block(nn.Module):
    """One layer of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.mix(self.norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(gelu(self.up(self.norm2(x))))


def gpt() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(512, 8) for _ in range(6))).cuda().bfloat16().eval()
    return model, torch.randn(8, 256, 512, device="cuda", dtype=torch.bfloat16)


def captured(model: nn.Module, x: torch.Tensor) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph


def shares(trace: Trace) -> dict[str, float]:
    """Return which shares of the graphs' kernel time have an operator, a module and a line."""
    work = device_work(trace)
    graph = trace.slices.args.integers.get("graph node id")
    in_graph = np.isin(work.rows, graph.rows) if graph is not None else np.zeros(len(work), bool)
    rows = work.rows[in_graph]
    ns = trace.slices.duration_ns[rows].astype(np.float64)
    node = captured_nodes(trace)[rows]
    has = {key: np.zeros(len(rows), bool) for key in ("seen", "operator", "module", "line")}
    for at, (row, origin) in enumerate(zip(rows.tolist(), node.tolist(), strict=True)):
        operator = int(work.operator[row])
        name = trace.name_of(row)
        is_operator = operator >= 0 and trace.slices.kind[operator] == SliceKind.OPERATOR
        has["operator"][at] = is_operator or name.startswith("triton_")
        if origin == NO_SLICE:
            continue
        has["seen"][at] = True
        stack = int(trace.slices.stack[origin])
        frames = [trace.strings[text] for text in trace.stacks.frames(stack)]
        has["line"][at] = bool(own_path(trace, stack))
        # By its path, or, captured while nothing was recorded, by its class.
        has["module"][at] = in_module(trace, origin) or any(
            text.startswith("nn.Module: ") or text.endswith(".forward") for text in frames
        )
    total = ns.sum() or 1.0
    return {"kernels": float(len(rows)), **{key: float(ns[has[key]].sum() / total) for key in has}}


def in_module(trace: Trace, row: int) -> bool:
    while row >= 0:
        if trace.slices.kind[row] == SliceKind.MODULE:
            return True
        row = int(trace.slices.parent[row])
    return False


def show(what: str, found: dict[str, float]) -> None:
    holds = found["operator"] >= MIN_OPERATOR and min(found["module"], found["line"]) >= MIN_LINE
    words = ", ".join(f"{key} {value:.1%}" for key, value in found.items() if key != "kernels")
    print(f"{what}: {found['kernels']:.0f} kernels, {words}: {'holds' if holds else 'MISSED'}")


def profiled(run: Callable[[], object]) -> Trace:
    with stepscope.profile(with_modules=True) as profiler:
        run()
        torch.cuda.synchronize()
    return profiler.trace


def by_hand() -> None:
    model, x = gpt()
    with torch.inference_mode():
        model(x)

        def run() -> None:
            graph = captured(model, x)
            for _ in range(REPLAYS):
                graph.replay()

        show("captured by hand, while recording", shares(profiled(run)))
        graph = captured(model, x)
        show(
            "captured by hand, before recording",
            shares(profiled(lambda: [graph.replay() for _ in range(REPLAYS)])),
        )


def compiled() -> None:
    model, x = gpt()
    fast = torch.compile(model, mode="reduce-overhead")
    with torch.inference_mode():
        trace = profiled(lambda: [fast(x) for _ in range(REPLAYS)])
        show('torch.compile(mode="reduce-overhead"), inference', shares(trace))
    torch._dynamo.reset()
    model = model.train()
    loss_of = torch.compile(lambda x: model(x).square().mean(), mode="reduce-overhead")

    def train() -> None:
        for _ in range(REPLAYS):
            loss_of(x).backward()
            model.zero_grad()

    show('torch.compile(mode="reduce-overhead"), training', shares(profiled(train)))


def timed_s(run: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    before = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - before


def costs() -> None:
    model, x = gpt()
    times: dict[str, list[float]] = {"watched": [], "bare": [], "replay": [], "bare replay": []}
    with torch.inference_mode():
        model(x)
        captured(model, x)
        _captures.release()  # so that nothing watches but what is measured
        for _ in range(CAPTURES):
            for name in ("bare", "watched"):
                if name == "watched":
                    assert watch_captures()
                graphs = []
                times[name].append(timed_s(lambda: graphs.append(captured(model, x))))  # noqa: B023
                replay = "replay" if name == "watched" else "bare replay"
                times[replay].append(
                    timed_s(lambda: [graphs[0].replay() for _ in range(200)])  # noqa: B023
                )
                if name == "watched":
                    leave_captures()
    _captures.acquire()
    with torch.inference_mode():
        idle = median(timed_s(lambda: captured(model, x)) for _ in range(CAPTURES))
    print(f"with an imported, idle Stepscope: {idle / median(times['bare']):.3f} x")
    capture = median(times["watched"]) / median(times["bare"])
    replay = median(times["replay"]) / median(times["bare replay"])
    verdict = "holds" if capture <= MAX_CAPTURE else "MISSED"
    print(
        f"a watched capture takes {capture:.3f} x of one that is not, a replay {replay:.3f} x: "
        f"{verdict}"
    )


def beside_torch() -> None:
    """Say whether torch.profiler still sees the device after captures were watched."""
    model, x = gpt()
    with torch.inference_mode():
        model(x)
        captured(model, x)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.inference_mode(), torch.profiler.profile(activities=activities) as profiler:
        model(x)
        torch.cuda.synchronize()
    kernels = sum(1 for event in profiler.events() if event.device_type.name == "CUDA")
    print(f"torch.profiler beside it sees {kernels} kernels: {'holds' if kernels else 'MISSED'}")


def main() -> None:
    by_hand()
    compiled()
    costs()
    beside_torch()


if __name__ == "__main__":
    main()
