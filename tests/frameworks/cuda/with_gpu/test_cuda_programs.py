"""Any CUDA program: ``stepscope run`` shows its kernels under the user's ranges."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope import Trace
from stepscope.analysis.calls.launches import launched_work
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

CUPY = """
    import cupy
    from stepscope import record_function
    with record_function("mine"):
        cupy.arange(1000) ** 2
    cupy.cuda.Device().synchronize()
"""
JAX = """
    import jax.numpy as jnp
    from stepscope import record_function
    x = jnp.ones((256, 256))
    (x @ x).block_until_ready()
    with record_function("mine"):
        (x @ x).block_until_ready()
"""
TRITON = """
    import torch, triton, triton.language as tl
    from stepscope import record_function

    @triton.jit
    def add_one(data, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(data + at, tl.load(data + at, mask=at < size) + 1, mask=at < size)

    x = torch.zeros(1000, device="cuda")
    with record_function("mine"):
        add_one[(8,)](x, 1000, BLOCK=128)
    torch.cuda.synchronize()
"""
PLAIN = """
    import ctypes
    from stepscope import record_function
    runtime = ctypes.CDLL({runtime!r})
    place = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(place), 1 << 20) == 0
    with record_function("mine"):
        assert runtime.cudaMemset(place, 0, 1 << 20) == 0
    assert runtime.cudaDeviceSynchronize() == 0
"""


def run(tmp_path: Path, program: str) -> Trace:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    saved = tmp_path / "trace.stepscope"
    command = [sys.executable, "-m", "stepscope", "run", "-o", str(saved), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Trace.load(saved)


def names_under_mine(trace: Trace) -> set[str]:
    slices = trace.slices
    names = set()
    for row, call in zip(*launched_work(trace), strict=True):
        at = call
        while at >= 0:
            if trace.name_of(int(at)) == "mine":
                names.add(trace.name_of(int(row)))
            at = slices.parent[at]
    return names


def needs(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def test_cupy(tmp_path: Path) -> None:
    needs("cupy")
    trace = run(tmp_path, CUPY)
    assert any("square" in name or "power" in name for name in names_under_mine(trace))


def test_jax(tmp_path: Path) -> None:
    needs("jax")
    trace = run(tmp_path, JAX)
    assert (trace.slices.kind == SliceKind.KERNEL).any()
    assert np.isin(trace.slices.kind, (SliceKind.RANGE,)).any()


def test_triton(tmp_path: Path) -> None:
    needs("triton")
    assert names_under_mine(run(tmp_path, TRITON)) == {"add_one"}


def test_a_plain_program_through_ctypes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    major = torch.version.cuda.partition(".")[0]
    trace = run(tmp_path, PLAIN.format(runtime=f"libcudart.so.{major}"))
    assert names_under_mine(trace) == {"Memset (Device)"}
