"""Which functions only wait, and which threads do nothing else."""

from __future__ import annotations

import pytest

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.calls.waiting import helper_tracks, is_waiting, waiting_tracks
from stepscope.trace.model import ThreadState


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("threading.py(295): wait", True),
        ("threading.py(589): Event.wait", True),
        ("queue.py(154): get", True),
        ("/usr/lib/python3.11/selectors.py(452): select", True),
        ("<built-in function sleep>", True),
        ("<built-in method acquire of _thread.lock object at 0x7f01>", True),
        ("<native call time.sleep>", True),
        ("my/threading.py(3): wait", False),
        ("threading.py(1002): _bootstrap", False),
        ("<built-in method add of Tensor object>", False),
        ("aten::mm", False),
        ("wait", False),
    ],
)
def test_functions_that_wait_are_known_by_name(name: str, waits: bool) -> None:
    assert is_waiting(name) is waits


def test_a_thread_whose_calls_only_wait_only_waits() -> None:
    calls = [
        Call("aten::mm", 0, 1000),
        Call("worker.py(3): run", 0, 1000, "python_function", track=1),
        Call("queue.py(154): get", 1, 999, "python_function", track=1),
        Call("worker.py(3): run", 0, 1000, "python_function", track=2),
        Call("queue.py(154): get", 1, 500, "python_function", track=2),
    ]
    assert waiting_tracks(trace_of_calls(calls)).tolist() == [False, True, False, False]


def test_samples_tell_better_than_names() -> None:
    calls = [Call("aten::mm", 0, 1000), Call("busy", 0, 1000, track=1)]
    samples = [
        Sample(0, 1000, ("a.py(1): f",)),
        Sample(0, 995, ("a.py(2): g",), state=ThreadState.BLOCKED, track=1),
        Sample(995, 1000, ("a.py(2): g",), track=1),
    ]
    trace = trace_of_calls(calls, samples=samples)
    assert waiting_tracks(trace).tolist() == [False, True, False, False]


def test_threads_that_never_ran_python_are_helpers() -> None:
    samples = [Sample(0, 1000, ("a.py(1): f",)), Sample(0, 1000, (), track=2)]
    trace = trace_of_calls([Call("aten::mm", 0, 1000)], samples=samples)
    assert helper_tracks(trace).tolist() == [False, False, True, False]
