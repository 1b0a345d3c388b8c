"""The memory of a CUDA device: what torch's allocator hands out, and who asked."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope import ProfilerActivity, Trace, profile, record_function
from stepscope.analysis.memory.timeline import memory_peak

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def test_blocks_totals_and_the_operator_that_asked() -> None:
    tensor = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    base = torch.cuda.memory_allocated()
    with profile(activities=BOTH, profile_memory=True) as prof:
        with record_function("mine"):
            made = torch.ones(1 << 20, device="cuda")
        after = torch.cuda.memory_allocated()
        del made
    trace = prof.trace
    memory = trace.memory
    on_device = np.array([trace.strings[int(i)] == "cuda:0" for i in memory.device])
    sizes = memory.size[on_device]
    assert sizes.tolist() == [1 << 22, -(1 << 22)]
    assert memory.allocated[on_device].tolist() == [after, base]
    assert (memory.reserved[on_device] == torch.cuda.memory_reserved()).all()
    slices = [trace.name_of(int(row)) for row in memory.slice[on_device][:1]]
    assert slices == ["aten::empty"]
    del tensor


def test_the_peak_is_that_of_torch() -> None:
    torch.cuda.reset_peak_memory_stats()
    with profile(activities=BOTH, profile_memory=True) as prof:
        a = torch.zeros(1000, 1000, device="cuda")
        b = a @ a
        del a, b
        torch.ones(10, device="cuda")
    peak = memory_peak(prof.trace, "cuda:0")
    assert peak is not None
    assert peak.bytes == torch.cuda.max_memory_allocated()


def test_the_table_has_the_bytes_of_cuda() -> None:
    with profile(activities=BOTH, profile_memory=True) as prof:
        torch.ones(1 << 18, device="cuda")
    (ones,) = [average for average in prof.key_averages() if average.key == "aten::ones"]
    assert ones.device_memory_usage == 1 << 20


def test_reserving_more_is_seen() -> None:
    torch.cuda.empty_cache()
    with profile(activities=BOTH, profile_memory=True) as prof:
        before = torch.cuda.memory_reserved()
        big = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        after = torch.cuda.memory_reserved()
    reserved = prof.trace.memory.reserved
    assert after > before
    assert int(reserved.max()) == after
    del big


def test_a_program_that_has_not_set_cuda_up_yet(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import torch\ntorch.ones(1 << 18, device='cuda')\n")
    saved = tmp_path / "trace.stepscope"
    command = [sys.executable, "-m", "stepscope", "run", "--memory", "-o", str(saved), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    trace = Trace.load(saved)
    devices = [trace.strings[int(device)] for device in trace.memory.device]
    assert 1 << 20 in trace.memory.size[[device == "cuda:0" for device in devices]]
