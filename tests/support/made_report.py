"""A small trace with something for every page of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from made_trace import Bytes, Call, trace_of_calls

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

DIMS = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
LINES = ("model.py(3): forward", "main.py(9): <module>")


def trace_of_a_step() -> Trace:
    """Return a step with modules, shapes, stacks, memory and device work."""
    launch: dict[str, Any] = {"category": "cuda_runtime"}
    return trace_of_calls(
        [
            Call("ProfilerStep#1", 0, 100, "user_annotation"),
            Call("Net", 5, 60, "module", rest='"Class": "Net"'),
            Call("fc", 10, 40, "module", rest='"Class": "Linear"'),
            Call("aten::mm", 12, 30, rest=DIMS, stack=LINES),
            Call("cudaLaunchKernel", 14, 16, correlation=1, **launch),
            Call("aten::mm", 32, 38, rest=DIMS.replace("4]", "8]"), stack=LINES[1:]),
            Call("cudaLaunchKernel", 33, 34, correlation=2, **launch),
            Call("aten::relu", 70, 80),
            Call("gemm_64", 20, 50, "kernel", track=1, correlation=1),
            Call("gemm_64", 52, 60, "kernel", track=1, correlation=2),
            Call("Memcpy HtoD (Pageable -> Device)", 62, 65, "gpu_memcpy", track=1),
        ],
        [Bytes(13, 64), Bytes(15, 4096, "cuda:0"), Bytes(75, -64)],
    )
