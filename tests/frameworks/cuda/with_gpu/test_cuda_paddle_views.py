"""paddle.profiler's views of what a CUDA device did, for a program of PyTorch."""

from __future__ import annotations

import pytest

import stepscope.paddle as profiler

torch = pytest.importorskip("torch")


def test_the_views_of_the_device_are_filled(capsys: pytest.CaptureFixture[str]) -> None:
    a, on_host = torch.randn(256, 256, device="cuda"), torch.randn(256, 256)
    (a @ a).relu()
    prof = profiler.Profiler(
        targets=[profiler.ProfilerTarget.CPU, profiler.ProfilerTarget.GPU],
        on_trace_ready=lambda _: None,
    )
    prof.start()
    for _ in range(3):
        (a @ on_host.cuda()).relu()
        prof.step()
    prof.stop()
    prof.summary(sorted_by=profiler.SortedKeys.GPUTotal)
    out = capsys.readouterr().out
    tables = prof.summary_tables()
    assert "GPU0" in out
    kernels = tables["kernels"]
    assert kernels.height >= 2
    assert kernels["gpu_total_ns"].sum() > 0
    copies = tables["memory_manipulation"]
    assert any("Memcpy" in name for name in copies["name"])
    assert tables["operators"]["gpu_total_ns"].max() > 0
