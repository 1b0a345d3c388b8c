"""What other programs on the machine take is left out, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.answer import answer
from stepscope.analysis.findings import find_problems
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import ledger
from stepscope.analysis.steps.undisturbed import undisturbed
from stepscope.text.answer import answer_text
from stepscope.trace.model import ThreadState, Trace

STEPS = 24
PREPARE = ("train.py(4): prepare", "train.py(8): <module>")
MODEL = ("torch/nn/modules/module.py(1): Module._call_impl", "train.py(10): <module>")
PYTHON_US, MODEL_US = 4_000, 5_000  # of a step that nobody disturbs


def recorded(
    held_up: int = 4,
    *,
    every: int = 4,
    grows_us: int = 0,
    cores: float = 2,
    workers: float = 0,
    ready: bool = True,
) -> Trace:
    """Return steps of Python, a product and the optimizer, of which one in ``every`` is left alone.

    In the others the product takes ``held_up`` times as long, a half of it without a core, and
    Python's thread loses its core for a ms.
    """
    calls, samples, at = [], [], 0
    lost = ThreadState.READY if ready else ThreadState.NATIVE
    for step in range(STEPS):
        alone = step % every == 0
        took_us = (MODEL_US + step * grows_us) * (1 if alone else held_up)
        end = at + PYTHON_US
        samples += looks(at, end, PREPARE, ThreadState.PYTHON)
        if not alone and ready:
            samples += looks(end, end + 1_000, PREPARE, ThreadState.READY)
            end += 1_000
        calls.append(Call("aten::mm", end, end + took_us))
        samples += looks(end, end + took_us // 2, MODEL, ThreadState.NATIVE)
        samples += looks(
            end + took_us // 2, end + took_us, MODEL, ThreadState.NATIVE if alone else lost
        )
        at = end + took_us + 1_000
        calls.append(Call("Optimizer.step#SGD.step", at - 1_000, at, "user_annotation"))
    trace = trace_of_calls(calls, samples=samples, end_ns=at * 1000)
    expected = {"cores": cores, "loader workers": workers}
    return replace(trace, info=replace(trace.info, parallelism=expected))


def looks(at: int, end: int, stack: tuple[str, ...], state: ThreadState) -> list[Sample]:
    """Return samples every 100 µs."""
    return [Sample(t, min(t + 100, end), stack, state=state) for t in range(at, end, 100)]


def test_a_step_is_as_long_as_one_that_was_left_alone() -> None:
    trace = recorded()
    steady_rows = undisturbed(trace)
    spent = ledger(steady_rows.trace)
    assert spent.unit_ns == pytest.approx((PYTHON_US + MODEL_US + 1_000) * 1000, rel=0.01)
    assert spent.by_cause()[Cause.PYTHON] == pytest.approx(PYTHON_US * 1000, rel=0.01)
    assert ledger(trace).unit_ns - spent.unit_ns == pytest.approx(steady_rows.lost_ns, rel=0.01)


def never_left_alone(pool_ready: float) -> Trace:
    """Return steps with ten products of a ms each, of which two are left alone once.

    All others take 10 ms; for a share of that the thread of the pool has no core.
    """
    calls, samples, at = [], [], 0
    for step in range(STEPS):
        end = at + PYTHON_US
        samples += looks(at, end, PREPARE, ThreadState.PYTHON)
        samples += looks(end, end + 10_000, PREPARE, ThreadState.READY)
        at = end + 10_000
        for product in range(10):
            end = at + (1_000 if step == 2 * product and product < 2 else 10_000)
            calls.append(Call("aten::mm", at, end))
            samples += looks(at, end, MODEL, ThreadState.NATIVE)
            without_core = end - round(pool_ready * (end - at))
            samples.append(Sample(without_core, end, state=ThreadState.READY, track=1))
            at = end
        at += 1_000
        calls.append(Call("Optimizer.step#SGD.step", at - 1_000, at, "user_annotation"))
    trace = trace_of_calls(calls, samples=samples, end_ns=at * 1000)
    return replace(trace, info=replace(trace.info, parallelism={"cores": 2.0}))


@pytest.mark.parametrize(("pool_ready", "model_us"), [(0.0, 100_000), (0.5, 50_000), (0.9, 10_000)])
def test_calls_are_as_long_as_their_threads_had_cores(pool_ready: float, model_us: int) -> None:
    """Most of them were held up in every step, so that the quickest tenth says nothing."""
    spent = ledger(undisturbed(never_left_alone(pool_ready)).trace)
    assert spent.by_cause()[Cause.FORWARD] == pytest.approx(model_us * 1000, rel=0.1)
    assert spent.by_cause()[Cause.PYTHON] == pytest.approx(PYTHON_US * 1000, rel=0.01)


def test_times_stay_in_order_and_parents_around_their_children() -> None:
    trace = undisturbed(recorded()).trace
    slices = trace.slices
    assert (np.diff(slices.start_ns) >= 0).all()
    assert (np.diff(trace.samples.time_ns) >= 0).all()
    inside = slices.parent >= 0
    assert (slices.end_ns[inside] <= slices.end_ns[slices.parent[inside]]).all()
    assert (slices.self_ns >= 0).all() and (slices.self_ns <= slices.duration_ns).all()
    assert trace.info.end_ns >= slices.end_ns.max()


def test_moments_are_found_again_in_the_recording() -> None:
    trace = recorded()
    steady_rows = undisturbed(trace)
    rows = np.flatnonzero(trace.slices.duration_ns)
    for row in rows.tolist():
        middle = (steady_rows.trace.slices.start_ns + steady_rows.trace.slices.duration_ns // 2)[
            row
        ]
        result = steady_rows.recorded_ns(int(middle))
        assert trace.slices.start_ns[row] <= result <= trace.slices.end_ns[row]
    late = trace.info.end_ns + 1_000_000
    assert steady_rows.recorded_ns(int(steady_rows.trace.info.end_ns) + 1_000_000) == late


def test_the_answer_is_about_the_program_and_tells_what_was_left_out() -> None:
    trace = recorded(held_up=8)
    result = answer(trace)
    assert result.findings[0].id == "python-work"
    assert result.findings[0].share == pytest.approx(0.4, abs=0.02)
    evidence = find_problems(trace)[0].evidence
    if "from" in evidence:
        assert trace.info.start_ns <= evidence["from"] < evidence["to"] <= trace.info.end_ns
    assert result.to_json()["lost_to_others_ns"] == round(result.lost_ns) > 0
    assert "Other programs use this machine's cores, which adds" in answer_text(trace)


def test_work_that_grows_is_no_disturbance() -> None:
    trace = recorded(grows_us=4_000, every=2)
    (first, *_), findings = find_problems(trace), undisturbed(trace).trace
    assert first.id == "slowing-steps"
    products = np.flatnonzero(findings.slices.duration_ns > 0)[:-2:2]
    assert findings.slices.duration_ns[products[-1]] > 3 * findings.slices.duration_ns[products[0]]


def test_waits_within_calls_that_are_few_are_left_where_they_are() -> None:
    calls, samples = [], []
    for step in range(STEPS):
        at = 10_000 * step
        calls.append(Call(f"aten::mm_{step}", at, at + 9_000))  # no two are the same
        samples += looks(at, at + 4_000, MODEL, ThreadState.NATIVE)
        samples += looks(at + 4_000, at + 9_000, MODEL, ThreadState.READY)
        calls.append(Call("Optimizer.step#SGD.step", at + 9_000, at + 10_000, "user_annotation"))
    trace = trace_of_calls(calls, samples=samples, end_ns=STEPS * 10_000_000)
    trace = replace(trace, info=replace(trace.info, parallelism={"cores": 2.0}))
    assert undisturbed(trace).trace is trace


def test_steps_without_operators_lose_only_what_they_waited() -> None:
    calls, samples = [], []
    for step in range(STEPS):
        at = 10_000 * step
        calls.append(Call("Optimizer.step#SGD.step", at + 9_000, at + 10_000, "user_annotation"))
        samples += looks(at, at + 5_000, PREPARE, ThreadState.PYTHON)
        samples += looks(at + 5_000, at + 9_000, PREPARE, ThreadState.READY)
    trace = trace_of_calls(calls, samples=samples, end_ns=STEPS * 10_000_000)
    trace = replace(trace, info=replace(trace.info, parallelism={"cores": 2.0}))
    assert undisturbed(trace).lost_ns == 4_000_000


@pytest.mark.parametrize(
    "trace",
    [
        recorded(ready=False),  # slow by itself: nobody took a core
        recorded(cores=0.5),  # it keeps more than its cores busy itself
        recorded(workers=2),  # the workers of its loader may be in its way
        recorded(held_up=1, ready=False),
    ],
)
def test_a_program_that_nobody_disturbs_stays_as_it_is(trace: Trace) -> None:
    steady_rows = undisturbed(trace)
    assert steady_rows.trace is trace and steady_rows.lost_ns == 0
    assert steady_rows.recorded_ns(12_345) == 12_345
    assert "Other programs" not in answer_text(trace)
