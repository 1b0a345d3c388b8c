"""Where a step goes: samples and slices together, each moment once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_trace import Call, Sample, trace_of_calls
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.answer import answer
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import FEWEST_SAMPLES, ledger
from stepscope.formats import read_trace
from stepscope.trace.model import ThreadState, Trace, WaitReason

if TYPE_CHECKING:
    from pathlib import Path

STEP_US = 10_000
STEPS = 5
LOOP = "train.py(10): <module>"
PREPARE = ("train.py(4): prepare", "train.py(8): <module>")
SLEEP = ("<native call time.sleep>", "train.py(9): <module>")
MODEL = ("torch/nn/modules/module.py(1): Module._call_impl", LOOP)


def step(at: int) -> list[Call]:
    """Return a step: 4 ms of forward, 2 ms of backward, 1 ms of the optimizer, 3 ms of nothing."""
    return [
        Call("aten::mm", at + 3_000, at + 7_000),
        Call("autograd::engine::evaluate_function: MmBackward0", at + 7_000, at + 9_000),
        Call("Optimizer.step#SGD.step", at + 9_000, at + 10_000, "user_annotation"),
    ]


def looks(at: int, end: int, stack: tuple[str, ...], **more: object) -> list[Sample]:
    """Return samples every 100 µs."""
    return [Sample(t, t + 100, stack, **more) for t in range(at, end, 100)]  # type: ignore[arg-type]


def recorded(of_first_ms: tuple[str, ...], **more: object) -> Trace:
    calls, samples = [], []
    for at in range(0, STEPS * STEP_US, STEP_US):
        calls += step(at)
        samples += looks(at, at + 3_000, of_first_ms, **more)
        samples += looks(at + 3_000, at + 10_000, MODEL, state=ThreadState.NATIVE)
    return trace_of_calls(calls, samples=samples, end_ns=STEPS * STEP_US * 1000)


def shares(trace: Trace) -> dict[Cause, float]:
    rows_of_ledger = ledger(trace)
    return {cause: ns / rows_of_ledger.unit_ns for cause, ns in rows_of_ledger.by_cause().items()}


def test_every_moment_counts_once_and_phases_are_exact() -> None:
    rows_of_ledger = ledger(recorded(PREPARE))
    assert (rows_of_ledger.unit, rows_of_ledger.count) == ("step", STEPS - 1)
    assert rows_of_ledger.unit_ns == pytest.approx(STEP_US * 1000)
    assert rows_of_ledger.by_cause() == {
        Cause.FORWARD: pytest.approx(4e6),
        Cause.PYTHON: pytest.approx(3e6),
        Cause.BACKWARD: pytest.approx(2e6),
        Cause.OPTIMIZER: pytest.approx(1e6),
    }


@pytest.mark.parametrize(
    ("stack", "state", "wait", "cause"),
    [
        (PREPARE, ThreadState.PYTHON, WaitReason.UNKNOWN, Cause.PYTHON),
        (SLEEP, ThreadState.BLOCKED, WaitReason.SLEEP, Cause.SLEEP),
        (("<native call lock.acquire>", LOOP), ThreadState.BLOCKED, WaitReason.LOCK, Cause.LOCK),
        (("queue.py(1): get", LOOP), ThreadState.BLOCKED, WaitReason.LOCK, Cause.QUEUE),
        (("subprocess.py(1): wait", LOOP), ThreadState.BLOCKED, WaitReason.PIPE, Cause.PROCESS),
        (("socket.py(1): readinto", LOOP), ThreadState.BLOCKED, WaitReason.SOCKET, Cause.SOCKET),
        (("<native call file.read>", LOOP), ThreadState.BLOCKED, WaitReason.FILE, Cause.FILE),
        (("<native call np.sort>", LOOP), ThreadState.NATIVE, WaitReason.UNKNOWN, Cause.NATIVE),
        ((LOOP,), ThreadState.GIL, WaitReason.UNKNOWN, Cause.GIL),
        (("<native call print>", LOOP), ThreadState.NATIVE, WaitReason.UNKNOWN, Cause.LOGGING),
        (
            ("torch/serialization.py(9): save", LOOP),
            ThreadState.NATIVE,
            WaitReason.UNKNOWN,
            Cause.CHECKPOINT,
        ),
        (
            ("torch/distributions/categorical.py(9): __init__", LOOP),
            ThreadState.PYTHON,
            WaitReason.UNKNOWN,
            Cause.LIBRARY,
        ),
    ],
)
def test_what_no_slice_covers_is_told_by_the_stack_and_the_kernel(
    stack: tuple[str, ...], state: ThreadState, wait: WaitReason, cause: Cause
) -> None:
    share_of = shares(recorded(stack, state=state, wait=wait))
    assert share_of[cause] == pytest.approx(0.3)
    assert sum(share_of.values()) == pytest.approx(1)


def test_what_is_imported_within_the_steps_is_in_no_share() -> None:
    rows_of_ledger = ledger(recorded(("<frozen importlib._bootstrap>(1): _find_and_load", LOOP)))
    assert Cause.IMPORT not in rows_of_ledger.by_cause()
    assert rows_of_ledger.unit_ns == pytest.approx(7e6)


def test_glue_between_operators_belongs_to_the_phase_around_it() -> None:
    calls, samples = [], []
    for at in range(0, STEPS * STEP_US, STEP_US):
        calls += [Call("aten::mm", t, t + 100) for t in range(at, at + 9_000, 150)]
        calls.append(Call("Optimizer.step#SGD.step", at + 9_000, at + 10_000, "user_annotation"))
        samples += looks(at, at + 10_000, (LOOP,))
    share_of = shares(trace_of_calls(calls, samples=samples, end_ns=STEPS * STEP_US * 1000))
    assert Cause.PYTHON not in share_of
    assert share_of[Cause.FORWARD] == pytest.approx(0.9, abs=0.02)


def test_without_samples_slices_alone_tell() -> None:
    calls = [call for at in range(0, STEPS * STEP_US, STEP_US) for call in step(at)]
    share_of = shares(trace_of_calls(calls, end_ns=STEPS * STEP_US * 1000))
    assert share_of[Cause.FORWARD] == pytest.approx(0.4)
    assert share_of[Cause.OTHER] == pytest.approx(0.3)


def test_without_steps_it_is_about_the_run_of_the_main_thread() -> None:
    samples = looks(0, 6_000, PREPARE) + looks(6_000, 10_000, SLEEP, state=ThreadState.BLOCKED)
    trace = trace_of_calls([], samples=samples, end_ns=10_000_000, pid=20)
    rows_of_ledger = ledger(trace)
    assert (rows_of_ledger.unit, rows_of_ledger.count) == ("run", 1)
    assert shares(trace)[Cause.PYTHON] == pytest.approx(0.6)


def test_without_steps_threads_share_the_time_of_the_run() -> None:
    """The main thread waits for two others, of which one begins later."""
    samples = looks(0, 10_000, SLEEP, state=ThreadState.BLOCKED, wait=WaitReason.LOCK)
    samples += looks(0, 10_000, PREPARE, track=1)
    samples += looks(6_000, 10_000, SLEEP, state=ThreadState.NATIVE, track=2)
    trace = trace_of_calls([], samples=samples, end_ns=10_000_000, pid=20)
    rows_of_ledger = ledger(trace)
    assert rows_of_ledger.unit_ns == pytest.approx(10e6)
    assert rows_of_ledger.threads == pytest.approx(1.4)
    assert rows_of_ledger.by_cause()[Cause.PYTHON] == pytest.approx(8e6)


def test_too_few_samples_of_a_part_are_not_scaled() -> None:
    assert FEWEST_SAMPLES > 1
    calls = [call for at in range(0, STEPS * STEP_US, STEP_US) for call in step(at)]
    samples = [Sample(STEP_US + 4_000, STEP_US + 5_000, MODEL, ThreadState.NATIVE)]
    share_of = shares(trace_of_calls(calls, samples=samples, end_ns=STEPS * STEP_US * 1000))
    assert share_of[Cause.FORWARD] == pytest.approx(0.4)


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_no_share_is_above_the_whole_no_time_negative_no_gain_larger_than_what_is_there(
    path: Path,
) -> None:
    trace = read_trace(path)
    with shared_analyses():
        spent, result = ledger(trace), answer(trace)
    assert (spent.weight_ns >= 0).all()
    assert sum(spent.by_cause().values()) == pytest.approx(spent.unit_ns)
    assert spent.unit_ns <= spent.whole_ns
    rows = [*result.where, *result.lines]
    assert all(row.ns >= 0 and 0 <= row.share <= 1 + 1e-9 for row in rows)
    assert sum(row.share for row in result.where) <= 1 + 1e-9
    for finding in result.findings:
        assert 0 <= (finding.saves_ns or 0.0) <= finding.of_ns * (1 + 1e-9), finding.title
