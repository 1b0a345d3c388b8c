"""Problems of programs on the CPU: each planted in a recording that is written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from host_findings import (
    BLOCKED,
    PREPARE,
    QUEUE,
    SAVE,
    SLEEP,
    assert_found,
    finding_of,
    nothing,
    problems_of,
    spend,
    training,
)
from stepscope.analysis.answer import answer
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.findings import Severity
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import ledger
from stepscope.trace.model import ThreadState, WaitReason
from training_program import (
    BACKWARD_NS,
    FORWARD_NS,
    LOOP,
    MS,
    OPTIMIZER_NS,
    STEP_NS,
    STEPS,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from training_program import Stack

    Work = Callable[[Program], None]

PYTHON, NATIVE, GIL = ThreadState.PYTHON, ThreadState.NATIVE, ThreadState.GIL


def test_a_healthy_loop_has_no_finding() -> None:
    assert problems_of(training(nothing)) == []


WAITS = [
    ("waiting-sleep", SLEEP, WaitReason.SLEEP),
    ("waiting-sleep", SLEEP, WaitReason.LOCK),  # as some kernels call it
    ("waiting-lock", (*PREPARE, "<native call lock.acquire>"), WaitReason.LOCK),
    ("waiting-lock", QUEUE, WaitReason.LOCK),
    ("waiting-io", (*PREPARE, "<native call f.read>"), WaitReason.FILE),
    ("waiting-io", (*PREPARE, "<native call connection.recv>"), WaitReason.SOCKET),
    ("waiting-io", (*PREPARE, "subprocess.py(1): run"), WaitReason.PIPE),
]


@pytest.mark.parametrize(("problem", "stack", "wait"), WAITS)
def test_waiting_in_every_step(problem: str, stack: Stack, wait: WaitReason) -> None:
    waits = training(spend(stack, BLOCKED, 50 * MS, wait))
    finding = assert_found(waits, problem, "train.py:5", 50 * MS)
    assert finding.of_ns == pytest.approx(150 * MS)
    assert finding.places[1].line == 20  # the caller
    short = training(spend(stack, BLOCKED, 4 * MS, wait))
    assert finding_of(short, problem) is None


@pytest.mark.parametrize(("problem", "stack", "wait"), WAITS)
def test_another_thread_may_wait(problem: str, stack: Stack, wait: WaitReason) -> None:
    def waits_aside(program: Program) -> None:
        program.aside(1, stack, BLOCKED, STEP_NS, wait=wait)

    assert finding_of(training(waits_aside), problem) is None


def test_reading_files_that_the_kernel_has_in_memory() -> None:
    reads = (*PREPARE, "<native call f.read>")
    assert_found(training(spend(reads, NATIVE, 50 * MS)), "waiting-io", "train.py:5", 50 * MS)


def test_waiting_for_other_processes() -> None:
    waits = (*PREPARE, "multiprocessing/pool.py(1): Pool.map", "threading.py(1): Event.wait")
    program = training(spend(waits, BLOCKED, 50 * MS, WaitReason.LOCK))
    finding = assert_found(program, "waiting-lock", "train.py:5", 50 * MS)
    assert finding.title.startswith("Waiting for other processes")
    assert "pickled" in finding.fix
    assert finding.fix.endswith("`stepscope run` shows what they do.")


def test_native_code_that_waits_for_its_own_threads_computes() -> None:
    fits = (*PREPARE, "sklearn/cluster.py(1): fit", "<native call lloyd_iter>")
    program = training(spend(fits, BLOCKED, 50 * MS, WaitReason.LOCK))
    assert finding_of(program, "waiting-lock") is None
    assert_found(program, "data-in-loop", "train.py:5", 50 * MS)


def beside_another_thread(state: ThreadState) -> Program:
    """Return a program with a thread that runs Python, while the main thread is in some state."""

    def crunch_aside(program: Program) -> None:
        program.aside(1, ("worker.py(3): crunch",), PYTHON, 30 * MS)
        program.sample(PREPARE, state, 30 * MS)

    return training(crunch_aside)


def test_another_thread_that_has_the_gil() -> None:
    assert_found(beside_another_thread(GIL), "gil-contention", "worker.py:3", 30 * MS)
    assert finding_of(beside_another_thread(NATIVE), "gil-contention") is None


@pytest.mark.parametrize(
    ("problem", "stack"),
    [
        ("logging", (*PREPARE, "logging/__init__.py(1): Logger.info")),
        ("logging", (*PREPARE, "<native call print>")),
        ("checkpoint-every-step", SAVE),
        ("checkpoint-every-step", (*PREPARE, "<native call pickle.dump>")),
    ],
)
def test_what_should_be_done_now_and_then(problem: str, stack: Stack) -> None:
    work = spend(stack, NATIVE, 50 * MS)
    assert_found(training(work), problem, "train.py:5", 50 * MS)
    assert finding_of(training(work, only=[9]), problem) is None


def test_python_code_in_the_loop() -> None:
    assert_found(training(spend(PREPARE, PYTHON, 50 * MS)), "python-work", "train.py:5", 50 * MS)
    assert finding_of(training(spend(PREPARE, PYTHON, 4 * MS)), "python-work") is None


@pytest.mark.parametrize(
    "stack",
    [
        (*PREPARE, "<native call np.sort>"),
        (*PREPARE, "numpy/linalg/_linalg.py(1): svd"),
        (*PREPARE, "json/decoder.py(1): decode"),
    ],
)
def test_data_that_is_prepared_in_the_loop(stack: Stack) -> None:
    program = training(spend(stack, NATIVE, 50 * MS))
    assert_found(program, "data-in-loop", "train.py:5", 50 * MS)
    assert finding_of(program, "python-work") is None


def test_a_function_that_loads_data_counts_as_a_whole_though_it_makes_tensors_of_them() -> None:
    def loads(program: Program) -> None:
        program.sample((*LOOP, "train.py(6): load", "<native call np.repeat>"), NATIVE, 20 * MS)
        program.sample((*LOOP, "train.py(7): load", "<native call np.sort>"), NATIVE, 40 * MS)
        program.operator("aten::div", 2 * MS, (*LOOP, "train.py(8): load"))

    assert_found(training(loads), "data-in-loop", "train.py:7", 60 * MS)


def test_comprehensions_and_builtins_are_python_code() -> None:
    """A comprehension is a line of its function, also where it has a frame of its own."""
    rows = (*LOOP, "train.py(5): rows", "train.py(6): rows.<locals>.<listcomp>")
    stacks = (rows, (*rows, "<native call sum>"), (*rows, "train.py(6): rows.<locals>.<genexpr>"))

    def work(program: Program) -> None:
        for stack, state in zip(stacks, (PYTHON, NATIVE, PYTHON), strict=True):
            program.sample(stack, state, 20 * MS)

    finding = assert_found(training(work), "python-work", "train.py:6", 60 * MS)
    assert finding.places[0].function == "rows"


def test_python_code_prepares_no_data() -> None:
    assert finding_of(training(spend(PREPARE, PYTHON, 50 * MS)), "data-in-loop") is None


@pytest.mark.parametrize("call", ["torch.tensor", "torch.FloatTensor", "np.array"])
def test_tensors_from_lists(call: str) -> None:
    program = training(spend((*PREPARE, f"<native call {call}>"), NATIVE, 50 * MS))
    assert_found(program, "tensors-from-lists", "train.py:5", 50 * MS)
    assert finding_of(program, "python-work") is None
    assert finding_of(program, "data-in-loop") is None


def test_tensors_from_arrays() -> None:
    program = training(spend((*PREPARE, "<native call torch.from_numpy>"), NATIVE, 50 * MS))
    assert finding_of(program, "tensors-from-lists") is None


def computing_with(threads: int) -> Program:
    return training(nothing, parallelism={"cores": 4.0, "torch threads": float(threads)})


def test_more_threads_than_cores() -> None:
    saves_ns = 0.5 * (1 - 4 / 16) * STEP_NS
    finding = assert_found(computing_with(16), "too-many-threads", "model.py:7", saves_ns)
    assert "16 threads compute on 4 cores" in finding.title


@pytest.mark.parametrize("threads", [2, 4, 5])
def test_about_as_many_threads_as_cores(threads: int) -> None:
    assert finding_of(computing_with(threads), "too-many-threads") is None


def with_library_threads(threads: int) -> Program:
    """Return a program on two cores beside which threads run that Python does not know."""

    def compute_aside(program: Program) -> None:
        for thread in range(1, threads + 1):
            program.aside(thread, (), NATIVE, MS)

    return training(compute_aside, parallelism={"cores": 2.0, "torch threads": 2.0})


def test_threads_of_many_pools() -> None:
    saves_ns = 0.5 * (1 - 2 / 20) * STEP_NS
    assert_found(with_library_threads(20), "too-many-threads", "model.py:7", saves_ns)
    assert finding_of(with_library_threads(8), "too-many-threads") is None


def test_what_some_steps_do_beside_what_all_do() -> None:
    program = training(spend(SAVE, NATIVE, 300 * MS), only=[3, 4, 9])
    finding = assert_found(program, "work-in-some-steps", "train.py:5", 3 * 300 * MS / (STEPS - 1))
    assert finding.title.startswith(f"3 of {STEPS - 1} steps spend 300 ms in ")


def test_what_every_tenth_step_does() -> None:
    program = training(spend(PREPARE, PYTHON, 150 * MS), only=[10, 20, 30], steps=41)
    finding = assert_found(program, "work-in-some-steps", "train.py:5", 3 * 150 * MS / 40)
    assert finding.title.startswith("Every 10th step spends 150 ms in prepare (train.py:5)")


def test_an_evaluation_is_told_without_a_gain() -> None:
    evaluates = (*PREPARE, "torch/nn/modules/module.py(1): Module._call_impl")
    program = training(spend(evaluates, NATIVE, 150 * MS), only=[10, 20, 30], steps=41)
    finding = finding_of(program, "work-in-some-steps")
    assert finding is not None and "mostly forward" in finding.text
    assert (finding.severity, finding.saves_ns) == (Severity.LOW, 0)
    with shared_analyses():
        assert "Worth knowing: Every 10th step" in answer(program.trace()).verdict


def test_what_some_steps_do_is_in_no_share_of_the_others() -> None:
    program = training(spend(PREPARE, PYTHON, 150 * MS), only=[10, 20, 30], steps=41)
    with shared_analyses():
        usual, some = answer(training(nothing).trace()), answer(program.trace())
    assert some.steps is not None and usual.steps is not None
    assert (some.steps.count, some.steps.steady) == (41, 37)
    assert some.steps.mean_ns == usual.steps.mean_ns == STEP_NS
    shares = {row.what: pytest.approx(row.share) for row in usual.where}
    assert {row.what: row.share for row in some.where} == shares
    in_json = some.to_json()["some_steps"]
    assert (in_json["steps"], in_json["file"]) == (3, "train.py")
    assert in_json["ns"] == pytest.approx(150 * MS, rel=0.001)
    assert usual.to_json()["some_steps"] is None


def test_what_one_step_does_is_no_finding() -> None:
    program = training(spend(SAVE, NATIVE, 300 * MS), only=[9])
    assert finding_of(program, "work-in-some-steps") is None


def held_up() -> Program:
    """Return a program that does the same in every step, but the machine is busy twice."""
    program = Program()
    for number in range(STEPS):
        program.step(slower=3 if number in (7, 9) else 1)
    return program


def test_slow_steps_that_do_nothing_else_are_no_finding() -> None:
    assert finding_of(held_up(), "work-in-some-steps") is None


def test_steps_that_are_all_alike() -> None:
    assert finding_of(training(nothing), "work-in-some-steps") is None


def test_work_in_some_steps_that_another_finding_explains() -> None:
    program = training(spend(SLEEP, BLOCKED, 300 * MS, WaitReason.SLEEP), only=[5, 9])
    assert_found(program, "waiting-sleep", "train.py:5", 600 * MS / (STEPS - 1))
    assert finding_of(program, "work-in-some-steps") is None


def collecting(ns: int, *call: str) -> Work:
    def collect(program: Program) -> None:
        with program.recorded("Python garbage collection 2"):
            program.sample((*PREPARE, *call), NATIVE if call else PYTHON, ns)

    return collect


def test_garbage_collection() -> None:
    assert_found(training(collecting(10 * MS)), "garbage-collection", "train.py:5", 10 * MS)
    assert finding_of(training(collecting(MS // 2)), "garbage-collection") is None


def test_a_single_garbage_collection_is_no_alarm() -> None:
    finding = finding_of(training(collecting(500 * MS), only=[9]), "garbage-collection")
    assert finding is not None
    assert finding.severity is Severity.LOW


def test_garbage_that_the_program_collects_itself() -> None:
    program = training(collecting(50 * MS, "<native call gc.collect>"))
    finding = assert_found(program, "garbage-collection", "train.py:5", 50 * MS)
    assert finding.title.endswith(": prepare (train.py:5)")
    assert finding.fix.startswith("Leave out gc.collect()")


def test_work_in_a_function_that_the_optimizer_is_given() -> None:
    """Lightning runs a whole training step inside of the optimizer's."""
    step = (*LOOP, "torch/optim/optimizer.py(1): wrapper", "torch/optim/adam.py(1): step")
    closure = (*step, "lightning/precision.py(1): closure", "train.py(5): training_step")
    program = Program()
    for _ in range(STEPS):
        with program.recorded("Optimizer.step#Adam.step"):
            program.sample(closure, PYTHON, 50 * MS)
            program.forward()
            program.backward(BACKWARD_NS)
            program.sample(step, NATIVE, OPTIMIZER_NS)
    assert_found(program, "python-work", "train.py:5", 50 * MS)
    with shared_analyses():
        spent = ledger(program.trace()).by_cause()
    assert spent[Cause.FORWARD] == pytest.approx(FORWARD_NS, rel=0.01)
    assert spent[Cause.OPTIMIZER] == pytest.approx(OPTIMIZER_NS, rel=0.01)


def test_code_of_a_framework_beside_the_model() -> None:
    draws = (*PREPARE, "torch/distributions/categorical.py(1): Categorical.sample")
    assert_found(training(spend(draws, PYTHON, 40 * MS)), "library-call", "train.py:5", 40 * MS)
    machinery = (*PREPARE, "torch/nn/functional.py(1): cross_entropy")
    assert finding_of(training(spend(machinery, PYTHON, 40 * MS)), "library-call") is None


def test_the_worst_goes_first() -> None:
    def waste(program: Program) -> None:
        program.sample(PREPARE, PYTHON, 20 * MS)
        program.sample(SLEEP, BLOCKED, 120 * MS, wait=WaitReason.SLEEP)

    severities = {finding.id: finding.severity for finding in problems_of(training(waste))}
    assert severities == {"waiting-sleep": Severity.HIGH, "python-work": Severity.LOW}
    assert list(severities) == ["waiting-sleep", "python-work"]
