"""Times stay as measured on a machine that others use; waiting for a core stands beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.answer import answer
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.cores import core_shortage, ready_in_steps
from stepscope.analysis.steps.ledger import ledger
from stepscope.text.answer import answer_text
from stepscope.trace.model import ThreadState, Trace

STEPS = 24
PREPARE = ("train.py(4): prepare", "train.py(8): <module>")
MODEL = ("torch/nn/modules/module.py(1): Module._call_impl", "train.py(10): <module>")
PYTHON_US, MODEL_US = 4_000, 5_000


def recorded(waits_us: int = 0, pool_ready: float = 0.0, cores: float = 8) -> Trace:
    """Return steps of Python, a wait for a core in it, a product and the optimizer.

    For a share of the product another thread that computes it has no core.
    """
    calls, samples, at = [], [], 0
    for _ in range(STEPS):
        end = at + PYTHON_US
        samples += looks(at, end, ThreadState.PYTHON)
        samples += looks(end, end + waits_us, ThreadState.READY)
        at, end = end + waits_us, end + waits_us + MODEL_US
        calls.append(Call("aten::mm", at, end))
        samples += looks(at, end, ThreadState.NATIVE, MODEL)
        if pool_ready:
            without_core = end - round(pool_ready * (end - at))
            samples.append(Sample(without_core, end, state=ThreadState.READY, track=1))
        at = end + 1_000
        calls.append(Call("Optimizer.step#SGD.step", at - 1_000, at, "user_annotation"))
    trace = trace_of_calls(calls, samples=samples, end_ns=at * 1000)
    return replace(trace, info=replace(trace.info, parallelism={"cores": cores}))


def looks(at: int, end: int, state: ThreadState, stack: tuple[str, ...] = PREPARE) -> list[Sample]:
    """Return samples every 100 µs."""
    return [Sample(t, min(t + 100, end), stack, state=state) for t in range(at, end, 100)]


def test_steps_are_as_long_as_measured_and_shares_are_of_the_time_with_a_core() -> None:
    alone, shared = recorded(), recorded(waits_us=20_000)
    own_ns = (PYTHON_US + MODEL_US + 1_000) * 1000
    for trace, waited_ns in ((alone, 0), (shared, 20_000_000)):
        spent, result = ledger(trace), answer(trace)
        assert result.unit_ns == pytest.approx(own_ns + waited_ns, rel=0.01)
        assert result.steps is not None
        assert result.steps.median_ns == pytest.approx(own_ns + waited_ns, rel=0.01)
        assert spent.unit_ns == pytest.approx(own_ns, rel=0.01)
        assert spent.by_cause()[Cause.PYTHON] == pytest.approx(PYTHON_US * 1000, rel=0.01)
        assert sum(row.share for row in result.where) == pytest.approx(1.0, abs=0.001)


def test_a_finding_keeps_its_share_and_says_what_the_measured_step_would_save() -> None:
    quiet, busy = answer(recorded()).findings[0], answer(recorded(waits_us=20_000)).findings[0]
    assert quiet.id == busy.id == "python-work"
    assert busy.share == pytest.approx(quiet.share, abs=0.01)
    assert busy.saves_ns == pytest.approx(quiet.saves_ns, rel=0.01)
    assert busy.of_ns - quiet.of_ns == pytest.approx(20_000_000, rel=0.01)


def test_the_answer_says_who_had_the_cores() -> None:
    trace = recorded(waits_us=20_000)
    shown = answer_text(trace)
    assert "Other programs use this machine's cores: a step waited 20.0 ms of its 30.0 ms" in shown
    assert "and 20.0 ms waiting for a core, which is in no share" in shown
    cores_stated = answer(trace).to_json()["cores"]
    assert (
        cores_stated["waiting_ns"] == pytest.approx(20_000_000, rel=0.01)
        and cores_stated["by"] == "others"
    )
    assert "keep the cores busy" in answer_text(recorded(waits_us=20_000, cores=0.2))
    assert "core" not in answer_text(recorded())


def test_threads_of_operators_that_had_no_core_make_the_operators_doubtful() -> None:
    trace = recorded(waits_us=4_000, pool_ready=0.5)
    shortage = core_shortage(trace, ledger(trace))
    assert shortage is not None
    assert shortage.pool_share == pytest.approx(0.5 * MODEL_US / 14_000, abs=0.01)
    assert "makes operators seem slower than they are" in shortage.words


def test_each_step_has_its_wait() -> None:
    waited = ready_in_steps(recorded(waits_us=2_000))
    assert np.allclose(waited[1:], 2_000_000)
