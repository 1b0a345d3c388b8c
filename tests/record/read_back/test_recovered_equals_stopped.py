"""What a program leaves in its stream equals what is collected when it records itself and stops."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recovering import memory_of, recovered, rows_of, stack_of, stopped
from stepscope.trace.model import SliceKind, Trace

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

MOST_APART_NS = 20
_KILL = """
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""
_TRAINING = """
import threading
import torch
def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with torch.profiler.record_function("mine"):
            loss = torch.cat([model(torch.ones(2, 4)), torch.zeros(1, 1)]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss, model, optimizer
train()
"""


@pytest.mark.parametrize("options", [{}, {"shapes": True}, {"memory": True}])
def test_torchs_own_collector(tmp_path: Path, options: dict[str, bool]) -> None:
    ours = stopped(tmp_path, _TRAINING, torch_collector="kineto", **options)
    theirs = recovered(tmp_path, _TRAINING, torch_collector="kineto", **options)
    assert rows_of(theirs) == rows_of(ours)
    assert memory_of(theirs) == memory_of(ours)
    assert {"aten::addmm", "mine", "Optimizer.step#SGD.step"} <= set(theirs.names())
    assert bool(len(theirs.memory)) == ("memory" in options)
    product = list(theirs.names()).index("aten::addmm")
    inputs = theirs.slices.args.of_row(product, theirs.strings)
    sizes = [[4], [2, 4], [4, 4], [], []] if "shapes" in options else None
    assert inputs.get("Input Dims") == sizes


def test_operators_have_the_times_that_were_recorded(tmp_path: Path) -> None:
    """One recording, read by the program itself and from its stream: each reads the clock once."""
    within = (
        _TRAINING
        + f"""
import stepscope
with stepscope.profile() as profiler:
    train()
profiler.trace.save({str(tmp_path / "stopped.stepscope")!r})
"""
    )
    whole, part = recovered(tmp_path, within), Trace.load(tmp_path / "stopped.stepscope")
    ours, theirs = (operators_in_order(trace, part.slices.start_ns[0]) for trace in (part, whole))
    assert len(ours) > 100
    assert [name for name, _, _ in theirs] == [name for name, _, _ in ours]
    for (_, start_ns, duration_ns), (_, their_start_ns, their_ns) in zip(ours, theirs, strict=True):
        assert abs(their_start_ns - start_ns) <= MOST_APART_NS
        assert abs(their_ns - duration_ns) <= MOST_APART_NS


def operators_in_order(trace: Trace, begin_ns: int) -> list[tuple[str, int, int]]:
    """Return the names, starts and durations of the operators from a moment on."""
    slices = trace.slices
    rows = np.flatnonzero(
        (slices.kind == SliceKind.OPERATOR) & (slices.start_ns >= begin_ns - MOST_APART_NS)
    )
    return [
        (trace.name_of(row), int(slices.start_ns[row]), int(slices.duration_ns[row]))
        for row in rows.tolist()
    ]


def test_what_a_kill_loses_of_torchs_own_collector_is_said(tmp_path: Path) -> None:
    theirs = recovered(
        tmp_path, _TRAINING + _KILL, ends_with=-signal.SIGKILL, torch_collector="kineto"
    )
    assert "aten::addmm" not in theirs.names()
    assert "only when the program ends in order" in theirs.info.sources["torch"]


_COLLECTIVES = """
import tempfile
import torch
import torch.distributed as dist
place = tempfile.NamedTemporaryFile()
dist.init_process_group("gloo", init_method=f"file://{place.name}", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(7, 5))
for _ in range(3):
    model(torch.ones(2, 7)).sum().backward()
tensor = torch.ones(3, dtype=torch.int64)
dist.all_reduce(tensor, async_op=True).wait()
alone = dist.new_group([0])
dist.broadcast(tensor, 0, group=alone)
gathered = [torch.zeros(2)]
dist.all_gather(gathered, torch.ones(2))
dist.barrier()
dist.destroy_process_group(alone)
dist.destroy_process_group()
"""


def test_collectives_of_torch(tmp_path: Path) -> None:
    ours, theirs = stopped(tmp_path, _COLLECTIVES), recovered(tmp_path, _COLLECTIVES)
    assert rows_of(theirs) == rows_of(ours)
    assert theirs.info.user["distributedInfo"]["pg_count"]
    values = [theirs.slices.args.of_row(row, theirs.strings) for row in range(len(theirs))]
    expected = [pairs for pairs in values if "Collective name" in pairs]
    assert {pairs["Collective name"] for pairs in expected} >= {
        "allreduce",
        "broadcast",
        "allgather",
    }
    assert all("Process Group Name" in pairs and "Seq" in pairs for pairs in expected)


_COMPILED = """
import torch
class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        y = torch.relu(self.linear(x)) + 1
        print(end="")
        return (y * 2).sum()
torch.manual_seed(0)
model = torch.compile(Twice())
for _ in range(3):
    model(torch.ones(2, 4)).backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_cached", [False, True])
def test_compilations_and_generated_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cached: bool
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_FX_GRAPH_CACHE", str(int(is_cached)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    if is_cached:
        stopped(tmp_path, _COMPILED)
    ours = stopped(tmp_path, _COMPILED, stacks="operators")
    if not is_cached:
        shutil.rmtree(tmp_path / "cache")
    theirs = recovered(tmp_path, _COMPILED, stacks="operators")
    assert rows_of(theirs) == rows_of(ours)
    names = list(theirs.names())
    assert any(name.startswith("torch.compile 0/0: forward (program.py:") for name in names)
    assert sum(name.startswith("graph break: ") for name in names) == 1
    assert any(name.startswith("cpp_fused") for name in names)
    stacks = [stack_of(theirs, row)[:2] for row in range(len(names))]
    assert ["program.py(8): forward", "nn.Module: linear (Linear)"] in stacks


_KILLED = """
import tempfile
import torch
import torch.distributed as dist
place = tempfile.NamedTemporaryFile()
dist.init_process_group("gloo", init_method=f"file://{place.name}", rank=0, world_size=1)
tensor = torch.ones(3, dtype=torch.int64)
for _ in range(3):
    dist.all_reduce(tensor)
dist.broadcast(tensor, 0, group=dist.new_group([0]))
@torch.compile(backend="eager")
def breaks(x):
    y = x + 1
    print(end="")
    return y * 2
breaks(torch.ones(2))
"""


def test_a_kill_loses_nothing_that_had_been_noted(tmp_path: Path) -> None:
    ours = stopped(tmp_path, _KILLED)
    theirs = recovered(tmp_path, _KILLED + _KILL, ends_with=-signal.SIGKILL)
    assert rows_of(theirs) == rows_of(ours)
    names = list(theirs.names())
    assert sum(name.startswith("torch.compile ") for name in names) == 2
    assert sum(name.startswith("c10d::allreduce") for name in names) == 3
