"""Chrome traces as JAX and XLA write them."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def jax_gaps(path: Path) -> None:
    """Write a Chrome trace of JAX's whose GPU waits for the host."""
    _jax(path, gap_us=3_000.0)


def jax_healthy(path: Path) -> None:
    """Write a Chrome trace of JAX's whose GPU is busy."""
    _jax(path, gap_us=10.0)


def _jax(path: Path, gap_us: float) -> None:
    events: list[dict[str, Any]] = [
        _named("process_name", 1, 0, "/device:GPU:0"),
        _named("thread_name", 1, 13, "Stream #13(Compute,MemcpyD2D)"),
        _named("process_name", 701, 0, "/host:CPU"),
        _named("thread_name", 701, 1, "python"),
    ]
    now, number = 100.0, itertools.count(1)
    for _ in range(20):
        began = now
        for op in ("loop_fusion", "cublas-gemm", "input_reduce_fusion") * 20:
            args = {"hlo_module": "jit_step", "hlo_op": op, "correlation_id": next(number)}
            events.append(
                {"ph": "X", "pid": 1, "tid": 13, "ts": now, "dur": 50.0, "name": op, "args": args}
            )
            now += 51
        now += gap_us
        events.append(
            {"ph": "X", "pid": 701, "tid": 1, "ts": began - 40, "dur": 30.0,
             "name": "PjitFunction(step)"}
        )  # fmt: skip
    path.write_text(json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": events}))


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
