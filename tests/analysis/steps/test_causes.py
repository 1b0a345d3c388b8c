"""What a sampled moment was spent on, told by its stack."""

from __future__ import annotations

import pytest

from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.own_lines import OWN, Place
from stepscope.analysis.code.sampled_stacks import SampledStack
from stepscope.analysis.steps.causes import Cause, cause_of_moment
from stepscope.trace.model import ThreadState, WaitReason

OWN_LINE = Place("train.py", 7, "main")
MODULE = Place("torch/nn/modules/module.py", 1, "Module._call_impl")
GENERATED = Place("/tmp/torchinductor_me/gz/cgz.py", 30, "Runner.call")


def stack(*beyond: Place, callee: str = "", library: str = OWN) -> SampledStack:
    frames = (OWN_LINE, *beyond)
    return SampledStack(frames, (OWN_LINE,), beyond, callee, library)


def cause(
    of: SampledStack,
    state: ThreadState = ThreadState.PYTHON,
    wait: WaitReason = WaitReason.UNKNOWN,
    part: Part = Part.OTHER,
) -> Cause:
    return cause_of_moment(of, state, wait, part, in_operator=False, is_beside=False, in_gap=True)


@pytest.mark.parametrize(
    "place",
    [
        Place("torch/multiprocessing/spawn.py", 1, "ProcessContext.join"),
        Place("multiprocessing/process.py", 1, "BaseProcess.join"),
    ],
)
def test_a_program_that_waits_for_the_processes_it_started(place: Place) -> None:
    waiting = stack(place, Place("multiprocessing/connection.py", 1, "wait"))
    assert cause(waiting, ThreadState.BLOCKED, WaitReason.POLL) is Cause.CHILDREN


def test_a_queue_of_another_process() -> None:
    waiting = stack(Place("multiprocessing/queues.py", 1, "Queue.get"))
    assert cause(waiting, ThreadState.BLOCKED, WaitReason.PIPE) is Cause.QUEUE


@pytest.mark.parametrize("part", [Part.OTHER, Part.FORWARD, Part.BACKWARD, Part.OPTIMIZER])
def test_a_wait_for_the_gil_is_one_in_every_phase(part: Part) -> None:
    waiting = stack(MODULE, library="torch")
    assert cause(waiting, ThreadState.GIL, part=part) is Cause.GIL
    assert cause(waiting, ThreadState.GIL, part=Part.DATA_LOADING) is Cause.DATA_LOADING


def test_code_that_was_compiled_runs_and_does_not_compile() -> None:
    run = Place("torch/_inductor/output_code.py", 1, "CompiledFxGraph.__call__")
    assert cause(stack(run, GENERATED, library="torch"), part=Part.FORWARD) is Cause.FORWARD
    compiling = Place("torch/_inductor/graph.py", 1, "GraphLowering.run")
    assert cause(stack(compiling, library="torch")) is Cause.COMPILE


@pytest.mark.parametrize(
    ("beyond", "part", "expected"),
    [
        ((MODULE,), Part.OTHER, Cause.FORWARD),  # a view in a model of a library
        ((), Part.BACKWARD, Cause.BACKWARD),
        ((), Part.OTHER, Cause.NATIVE),  # a tokenizer
    ],
)
def test_a_native_call_of_a_framework(
    beyond: tuple[Place, ...], part: Part, expected: Cause
) -> None:
    called = stack(*beyond, callee="x.view", library="transformers")
    assert cause(called, ThreadState.NATIVE, part=part) is expected


def test_what_jax_does_at_first_is_compiling() -> None:
    compiling = stack(Place("jax/_src/compiler.py", 1, "backend_compile"), library="jax")
    assert cause(compiling, ThreadState.BLOCKED, WaitReason.LOCK) is Cause.COMPILE


@pytest.mark.parametrize(
    ("callee", "expected"),
    [
        ("step", Cause.NATIVE),  # JAX computes in a thread of its own
        ("np.linalg.svd", Cause.NATIVE),
        ("lock.acquire", Cause.LOCK),
        ("lock.__enter__", Cause.LOCK),
        ("fcntl.flock", Cause.LOCK),
        ("", Cause.LOCK),
    ],
)
def test_native_code_that_waits_for_its_own_threads(callee: str, expected: Cause) -> None:
    assert cause(stack(callee=callee), ThreadState.BLOCKED, WaitReason.LOCK) is expected


def test_python_threads_that_wait() -> None:
    waiting = stack(Place("threading.py", 1, "Condition.wait"), callee="waiter.acquire")
    assert cause(waiting, ThreadState.BLOCKED, WaitReason.LOCK) is Cause.LOCK
    joined = stack(Place("threading.py", 1, "Thread._wait_for_tstate_lock"), callee="lock.sync")
    assert cause(joined, ThreadState.BLOCKED, WaitReason.LOCK) is Cause.LOCK
