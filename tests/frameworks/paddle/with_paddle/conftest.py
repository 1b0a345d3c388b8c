"""What every test with the real Paddle stands on."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def free_collector() -> None:
    """Free Paddle's only collector of the profiler that an earlier test left to the garbage."""
    core = pytest.importorskip("paddle.base.core")
    if core._Profiler.create(core.ProfilerOptions(), []) is None:
        gc.collect()
