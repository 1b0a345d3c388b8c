"""CUDA graphs on a real device: who owns a replayed kernel, and what watching captures costs.

Run it with the python3 of a machine with an NVIDIA GPU. A GPT-like model is captured by hand and by
``torch.compile(mode="reduce-overhead")``; each is replayed under Stepscope. The shares are of the
time of the graphs' kernels.
"""

from __future__ import annotations

import contextlib
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

import stepscope
from stepscope.analysis.calls.launches import captured_nodes
from stepscope.analysis.code.sampled_stacks import own_path
from stepscope.analysis.work.work import device_work
from stepscope.frameworks.cuda.activity import leave_captures, watch_captures
from stepscope.frameworks.cuda.graphs import NAME
from stepscope.frameworks.torch.graph_captures import _captures
from stepscope.trace.model import NO_SLICE, SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace

MIN_OPERATOR, MIN_LINE, MAX_CAPTURE = 0.99, 0.95, 1.03
REPLAYS, CAPTURES, TURNS = 20, 3, 60


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
        # Captured while nothing was recorded: its node is called as the operator was.
        has["operator"][at] |= trace.name_of(origin) != NAME
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


def show(what: str, shares: dict[str, float]) -> None:
    holds = shares["operator"] >= MIN_OPERATOR and min(shares["module"], shares["line"]) >= MIN_LINE
    words = ", ".join(f"{key} {value:.1%}" for key, value in shares.items() if key != "kernels")
    print(f"{what}: {shares['kernels']:.0f} kernels, {words}: {'holds' if holds else 'MISSED'}")


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


def timed(run: Callable[..., Any], *args: object) -> tuple[float, Any]:
    """Return the seconds until the device is done, and what was made."""
    torch.cuda.synchronize()
    before = time.perf_counter()
    made = run(*args)
    torch.cuda.synchronize()
    return time.perf_counter() - before, made


def replay(graph: torch.cuda.CUDAGraph) -> None:
    for _ in range(200):
        graph.replay()


@contextlib.contextmanager
def watching() -> Iterator[None]:
    assert watch_captures()
    try:
        yield
    finally:
        leave_captures()


@contextlib.contextmanager
def idle() -> Iterator[None]:
    _captures.acquire()
    try:
        yield
    finally:
        _captures.release()


def costs() -> None:
    """Say what a capture and a replay take with nobody, a watcher, and an idle Stepscope."""
    model, x = gpt()
    ways = {"bare": contextlib.nullcontext, "watched": watching, "idle": idle}
    captures: dict[str, list[float]] = {way: [] for way in ways}
    replays: dict[str, list[float]] = {way: [] for way in ways}
    with torch.inference_mode():
        model(x)
        _captures.release()  # so that nothing watches but what is measured
        for _ in range(TURNS):
            for way, context in ways.items():
                with context():
                    captured(model, x)  # the first one after a change is slower
                    taken = [timed(captured, model, x) for _ in range(CAPTURES)]
                    captures[way].append(median(seconds for seconds, _ in taken))
                    replays[way].append(timed(replay, taken[-1][1])[0])
        _captures.acquire()
    print(f"bare: a capture takes {median(captures['bare']) * 1e3:.2f} ms")
    for way in ("watched", "idle"):
        capture = by_turns(captures[way], captures["bare"])
        replayed = by_turns(replays[way], replays["bare"])
        verdict = "holds" if capture <= MAX_CAPTURE else "MISSED"
        print(f"{way}: a capture takes {capture:.3f} x bare, a replay {replayed:.3f} x: {verdict}")


def by_turns(taken: list[float], bare: list[float]) -> float:
    """Return the median ratio to the bare one of the same turn: the device's pace changes."""
    return median(one / other for one, other in zip(taken, bare, strict=True))


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
