"""The lines whose kernels keep a device busy: by stacks, by samples, and for the backward pass."""

from __future__ import annotations

import pytest

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.device.lines import device_lines

DEVICE = 3
MODEL, HEAD = "model.py(7): forward", "model.py(9): forward"
MAIN = "train.py(30): <module>"


def launched(
    at: int, operator: str, length: int, *, number: int, stack: tuple[str, ...] = ()
) -> list[Call]:
    """Return an operator that launches a kernel."""
    return [
        Call(operator, at, at + 10, stack=stack),
        Call("cudaLaunchKernel", at + 2, at + 8, "cuda_runtime", correlation=number),
        Call("kernel", at + 100, at + 100 + length, "kernel", DEVICE, correlation=number),
    ]


def by_line(calls: list[Call], samples: list[Sample] | None = None) -> dict[str, float]:
    line_rows = device_lines(trace_of_calls(calls, samples=samples or []))
    return {f"{place.file}:{place.line}": ns for place, ns in line_rows.items()}


def test_operators_with_a_stack_tell_their_line() -> None:
    calls = [
        *launched(0, "aten::mm", 50, number=1, stack=(MODEL, MAIN)),
        *launched(1000, "aten::mm", 30, number=2, stack=(HEAD, MAIN)),
        *launched(2000, "aten::mm", 20, number=3, stack=(HEAD, MAIN)),
        *launched(3000, "aten::mm", 99, number=4),  # from nowhere
    ]
    assert by_line(calls) == {"model.py:7": 50_000, "model.py:9": 50_000}


def test_calls_of_one_operator_share_the_lines_that_samples_saw_in_some() -> None:
    calls = [call for i in range(10) for call in launched(1000 * i, "aten::mm", 40, number=i)]
    calls += launched(20_000, "aten::relu", 70, number=11)  # never sampled
    samples = [
        Sample(2001, 2005, (MODEL, MAIN)),
        Sample(5001, 5005, (MODEL, MAIN)),
        Sample(8001, 8005, (HEAD, MAIN)),
        Sample(9500, 9900, (HEAD, MAIN)),  # in no operator
    ]
    result = by_line(calls, samples)
    assert result == pytest.approx({"model.py:7": 400_000 * 2 / 3, "model.py:9": 400_000 / 3})


def test_what_the_backward_pass_does_counts_for_the_line_of_the_operator() -> None:
    forward = launched(0, "aten::mm", 10, number=1, stack=(MODEL, MAIN))
    forward[0] = Call("aten::mm", 0, 10, sequence=5, stack=(MODEL, MAIN))
    backward = Call("MmBackward0", 500, 600, track=1, sequence=5, forward_thread=1)
    calls = [
        *forward,
        backward,
        Call("aten::mm", 510, 520, track=1),
        Call("cudaLaunchKernel", 512, 518, "cuda_runtime", 1, correlation=2),
        Call("kernel", 700, 725, "kernel", DEVICE, correlation=2),
    ]
    assert by_line(calls) == {"model.py:7": 35_000}
