"""Problems of programs on the CPU: each planted in a recording that is written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepscope.analysis.findings import Severity, find_problems
from stepscope.analysis.shared import shared_analyses
from stepscope.trace.model import NO_SEQUENCE, ThreadState, WaitReason
from training_program import (
    BACKWARD_NS,
    LOOP,
    MIB,
    MODULE_CALL,
    MS,
    OPTIMIZER,
    STEP_NS,
    STEPS,
    US,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.analysis.findings import Finding
    from training_program import Stack

    Work = Callable[[Program], None]

PYTHON, NATIVE, GIL = ThreadState.PYTHON, ThreadState.NATIVE, ThreadState.GIL
BLOCKED = ThreadState.BLOCKED

PREPARE = (*LOOP, "train.py(5): prepare")
READS = (*LOOP, "train.py(30): accuracy")
EVALUATES = (*LOOP, "train.py(16): step", "train.py(40): evaluate")
TEACHER = (*LOOP, "train.py(11): step", MODULE_CALL, "teacher.py(3): Teacher.forward")
LOADER = (*LOOP, "torch/utils/data/dataloader.py(1): __next__")
SLEEP = (*PREPARE, "<native call time.sleep>")
SAVE = (*PREPARE, "torch/serialization.py(1): save")
QUEUE = (*PREPARE, "queue.py(1): Queue.get", "threading.py(1): Condition.wait")


def problems_of(program: Program) -> list[Finding]:
    with shared_analyses():
        return find_problems(program.trace())


def found(program: Program, problem: str) -> Finding | None:
    return next((each for each in problems_of(program) if each.id == problem), None)


def assert_found(program: Program, problem: str, line: str, saves_ns: float) -> Finding:
    """Find a problem, its line, and what a step would save."""
    finding = found(program, problem)
    assert finding is not None
    place = finding.places[0]
    assert f"{place.file}:{place.line}" == line
    assert finding.saves_ns == pytest.approx(saves_ns, rel=0.01)
    return finding


def training(
    before: Work,
    *,
    steps: int = STEPS,
    only: Sequence[int] | None = None,
    parallelism: Mapping[str, float] | None = None,
) -> Program:
    """Return a program that does something before each step, or only before some of them."""
    program = Program(parallelism)
    for number in range(steps):
        if only is None or number in only:
            before(program)
        program.step()
    return program


def spend(stack: Stack, state: ThreadState, ns: int, wait: WaitReason = WaitReason.UNKNOWN) -> Work:
    return lambda program: program.sample(stack, state, ns, wait=wait)


def nothing(_: Program) -> None:
    """Do nothing besides training."""


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
    assert found(short, problem) is None


@pytest.mark.parametrize(("problem", "stack", "wait"), WAITS)
def test_another_thread_may_wait(problem: str, stack: Stack, wait: WaitReason) -> None:
    def waits_aside(program: Program) -> None:
        program.aside(1, stack, BLOCKED, STEP_NS, wait=wait)

    assert found(training(waits_aside), problem) is None


def test_reading_files_that_the_kernel_has_in_memory() -> None:
    reads = (*PREPARE, "<native call f.read>")
    assert_found(training(spend(reads, NATIVE, 50 * MS)), "waiting-io", "train.py:5", 50 * MS)


def test_an_event_loop_without_events_waits_for_no_file() -> None:
    idle = (*PREPARE, "asyncio/base_events.py(1): run_forever", "selectors.py(1): select")
    assert found(training(spend(idle, BLOCKED, 50 * MS, WaitReason.POLL)), "waiting-io") is None


def beside_another_thread(state: ThreadState) -> Program:
    """Return a program with a thread that runs Python, while the main thread is in some state."""

    def crunch_aside(program: Program) -> None:
        program.aside(1, ("worker.py(3): crunch",), PYTHON, 30 * MS)
        program.sample(PREPARE, state, 30 * MS)

    return training(crunch_aside)


def test_another_thread_that_has_the_gil() -> None:
    assert_found(beside_another_thread(GIL), "gil-contention", "worker.py:3", 30 * MS)
    assert found(beside_another_thread(NATIVE), "gil-contention") is None


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
    assert found(training(work, only=[9]), problem) is None


def test_python_code_in_the_loop() -> None:
    assert_found(training(spend(PREPARE, PYTHON, 50 * MS)), "python-work", "train.py:5", 50 * MS)
    assert found(training(spend(PREPARE, PYTHON, 4 * MS)), "python-work") is None


def test_python_between_operators_is_what_calling_them_takes() -> None:
    assert found(small_operators(operator_ns=18 * US, python_ns=62 * US), "python-work") is None


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
    assert found(program, "python-work") is None


def test_python_code_prepares_no_data() -> None:
    assert found(training(spend(PREPARE, PYTHON, 50 * MS)), "data-in-loop") is None


@pytest.mark.parametrize("call", ["torch.tensor", "torch.FloatTensor", "np.array"])
def test_tensors_from_lists(call: str) -> None:
    program = training(spend((*PREPARE, f"<native call {call}>"), NATIVE, 50 * MS))
    assert_found(program, "tensors-from-lists", "train.py:5", 50 * MS)
    assert found(program, "python-work") is None
    assert found(program, "data-in-loop") is None


def test_tensors_from_arrays() -> None:
    program = training(spend((*PREPARE, "<native call torch.from_numpy>"), NATIVE, 50 * MS))
    assert found(program, "tensors-from-lists") is None


def reading(times: int, compute_ns: int, read_ns: int) -> Work:
    """Compute something on a line and read it there, some times in a step."""

    def read(program: Program) -> None:
        for _ in range(times):
            program.operator("aten::select", compute_ns, READS)
            program.operator("aten::item", read_ns, READS)

    return read


def test_one_read_a_step_is_no_problem() -> None:
    assert found(training(reading(1, 100 * US, 900 * US)), "scalar-reads") is None


def test_a_line_that_reads_often_is_there_to_read() -> None:
    program = training(reading(40, 800 * US, 200 * US))
    finding = assert_found(program, "scalar-reads", "train.py:30", 40 * MS)
    assert "40 reads a step" in finding.text


def test_a_line_that_reads_seldom_is_there_to_compute() -> None:
    program = training(reading(4, 8 * MS, 2 * MS))
    assert_found(program, "scalar-reads", "train.py:30", 8 * MS)


def test_printing_tensors() -> None:
    prints = (*PREPARE, "torch/_tensor.py(1): __repr__", "torch/_tensor_str.py(1): _str")
    assert_found(training(spend(prints, PYTHON, 30 * MS)), "scalar-reads", "train.py:5", 30 * MS)


@pytest.mark.parametrize("name", ["aten::copy_", "aten::to"])
def test_copies_of_tensors(name: str) -> None:
    program = training(lambda program: program.operator(name, 40 * MS, PREPARE))
    assert_found(program, "redundant-copies", "train.py:5", 40 * MS)
    few = training(lambda program: program.operator(name, 10 * MS, PREPARE))
    assert found(few, "redundant-copies") is None


def test_other_operators_are_no_copies() -> None:
    program = training(lambda program: program.operator("aten::add", 40 * MS, PREPARE))
    assert found(program, "redundant-copies") is None


def test_copies_of_arrays() -> None:
    copies = training(spend((*PREPARE, "<native call image.astype>"), NATIVE, 40 * MS))
    assert_found(copies, "redundant-copies", "train.py:5", 40 * MS)
    sums = training(spend((*PREPARE, "<native call image.sum>"), NATIVE, 40 * MS))
    assert found(sums, "redundant-copies") is None


def test_copies_of_the_optimizer_are_its_own() -> None:
    program = Program()
    for _ in range(STEPS):
        program.forward()
        program.backward(BACKWARD_NS)
        with program.recorded("Optimizer.step#SGD.step"):
            program.operator("aten::copy_", 40 * MS, OPTIMIZER)
    assert found(program, "redundant-copies") is None


def evaluating(model: int) -> Work:
    """Run a model without gradients, and count what it got right."""

    def evaluate(program: Program) -> None:
        with program.module("Model", model=model, grad=False, training=False):
            program.operator("aten::conv2d", 30 * MS, (*EVALUATES, MODULE_CALL))
        program.sample(EVALUATES, PYTHON, 5 * MS)

    return evaluate


def test_the_model_is_evaluated_in_every_step() -> None:
    program = training(evaluating(model=1))
    assert_found(program, "evaluation-every-step", "train.py:40", 35 * MS)


def test_the_model_is_evaluated_now_and_then() -> None:
    assert found(training(evaluating(model=1), only=[6, 12]), "evaluation-every-step") is None


def test_a_teacher_is_not_evaluated() -> None:
    assert found(training(evaluating(model=2)), "evaluation-every-step") is None


def teaching(*, grad: bool, parameters_want_gradients: bool) -> Program:
    """Return a program whose model learns from another one, which is in eval mode.

    As in torch, an operator has the number of its thread's next node of the graph, whether or not
    it makes one; without ``grad`` it has none.
    """
    program = Program()
    for step in range(STEPS):
        teachers = 2 * step
        has_graph = grad and parameters_want_gradients
        students = teachers + has_graph
        with program.module("Teacher", model=2, grad=grad, training=False):
            sequence = teachers if grad else NO_SEQUENCE
            program.operator("aten::conv2d", 30 * MS, TEACHER, sequence=sequence)
        program.forward(sequence=students)
        program.backward(BACKWARD_NS, sequence=students)
        if has_graph:
            program.backward(20 * MS, sequence=teachers)
        program.update()
    return program


def test_gradients_of_a_frozen_teacher() -> None:
    program = teaching(grad=True, parameters_want_gradients=True)
    assert_found(program, "autograd-in-inference", "teacher.py:3", 20 * MS)


@pytest.mark.parametrize(
    ("grad", "parameters_want_gradients"), [(False, True), (False, False), (True, False)]
)
def test_a_teacher_without_gradients(grad: bool, parameters_want_gradients: bool) -> None:
    program = teaching(grad=grad, parameters_want_gradients=parameters_want_gradients)
    assert found(program, "autograd-in-inference") is None


def inference(*, grad: bool) -> Program:
    program = Program()
    for number in range(STEPS):
        with program.module("Model", grad=grad, training=False):
            for layer in range(10):
                sequence = 10 * number + layer if grad else NO_SEQUENCE
                program.operator("aten::conv2d", 5 * MS, sequence=sequence)
    return program


def test_inference_that_records_a_graph() -> None:
    assert_found(inference(grad=True), "autograd-in-inference", "model.py:7", 15 * US)
    assert found(inference(grad=False), "autograd-in-inference") is None


def small_operators(operator_ns: int, python_ns: int, read: str = "aten::add") -> Program:
    """Return a program whose model calls 300 operators in a step; ``read`` is every other one."""
    program = Program()
    for _ in range(STEPS):
        with program.module("Model"):
            for _ in range(150):
                for name in ("aten::select", read):
                    program.operator(name, operator_ns, READS)
                    program.sample(READS, PYTHON, python_ns)
        program.backward(10 * MS)
        program.update(5 * MS)
    return program


def test_operators_with_nothing_to_do() -> None:
    tiny = small_operators(operator_ns=18 * US, python_ns=62 * US)
    assert_found(tiny, "tiny-operators", "train.py:30", 0.8 * 24 * MS)
    long = small_operators(operator_ns=62 * US, python_ns=18 * US)
    assert found(long, "tiny-operators") is None


def test_tiny_operators_that_read_scalars_have_another_finding() -> None:
    program = small_operators(operator_ns=18 * US, python_ns=62 * US, read="aten::item")
    assert_found(program, "scalar-reads", "train.py:30", 24 * MS)
    assert found(program, "tiny-operators") is None


def keeping(*, last: int = STEPS, grows: bool = True) -> Program:
    """Return a program that keeps 10 MiB of each step up to the last one that does."""
    program = Program()
    for number in range(STEPS):
        program.resident(500 * MIB + 10 * MIB * number * grows)
        if number < last:
            program.keep(PREPARE, 10 * MIB)
        program.step()
    return program


def test_memory_that_grows_with_every_step() -> None:
    finding = assert_found(keeping(), "memory-growth", "train.py:5", 0)
    assert "10.0 MiB a step" in finding.title
    assert finding.severity is not Severity.LOW  # it never ends


def test_memory_that_only_the_first_steps_keep() -> None:
    assert found(keeping(last=4), "memory-growth") is None


def test_memory_that_is_replaced() -> None:
    assert found(keeping(grows=False), "memory-growth") is None


GROWS_BY_NS = 10 * MS  # from step to step
# Of the steps 1 to 15, which count, the mean one is step 8, and the median of the first third is 3.
GROWN_NS = (8 - 3) * GROWS_BY_NS


def backward_growing(more_ns: int, *, functions: bool) -> Program:
    """Return a program whose backward pass takes longer and longer, perhaps with more calls."""
    program = Program()
    for number in range(STEPS):
        program.forward()
        program.backward(BACKWARD_NS + number * more_ns, functions=4 + number if functions else 4)
        program.update()
    return program


def test_python_code_that_takes_longer_and_longer() -> None:
    program = Program()
    for number in range(STEPS):
        program.sample(PREPARE, PYTHON, number * GROWS_BY_NS)
        program.step()
    assert_found(program, "slowing-steps", "train.py:5", GROWN_NS)
    assert found(program, "graph-kept") is None


def test_python_code_that_takes_as_long_in_every_step() -> None:
    assert found(training(spend(PREPARE, PYTHON, 50 * MS)), "slowing-steps") is None


def test_a_graph_that_grows_with_every_step() -> None:
    program = backward_growing(GROWS_BY_NS, functions=True)
    assert_found(program, "graph-kept", "train.py:13", GROWN_NS)
    assert found(program, "slowing-steps") is None


def test_a_backward_pass_that_only_takes_longer() -> None:
    program = backward_growing(GROWS_BY_NS, functions=False)
    assert_found(program, "slowing-steps", "train.py:13", GROWN_NS)
    assert found(program, "graph-kept") is None


def test_the_same_work_on_a_machine_that_slows_down() -> None:
    program = backward_growing(3 * MS, functions=False)
    assert found(program, "slowing-steps") is None
    assert found(program, "graph-kept") is None


def two_losses(*, one_graph: bool) -> Program:
    """Return a program that calls backward twice in a step."""
    program = Program()
    for number in range(STEPS):
        program.forward()
        program.backward(BACKWARD_NS // 2, sequence=2 * number)
        program.backward(BACKWARD_NS // 2, sequence=2 * number + (not one_graph))
        program.update()
    return program


def test_a_graph_that_is_gone_through_again() -> None:
    assert_found(two_losses(one_graph=True), "graph-kept", "train.py:13", BACKWARD_NS / 2)
    assert found(two_losses(one_graph=False), "graph-kept") is None


def computing_with(threads: int) -> Program:
    return training(nothing, parallelism={"cores": 4.0, "torch threads": float(threads)})


def test_more_threads_than_cores() -> None:
    saves_ns = 0.5 * (1 - 4 / 16) * STEP_NS
    finding = assert_found(computing_with(16), "too-many-threads", "model.py:7", saves_ns)
    assert "16 threads compute on 4 cores" in finding.title


@pytest.mark.parametrize("threads", [2, 4, 5])
def test_about_as_many_threads_as_cores(threads: int) -> None:
    assert found(computing_with(threads), "too-many-threads") is None


def with_library_threads(threads: int) -> Program:
    """Return a program on two cores beside which threads run that Python does not know."""

    def compute_aside(program: Program) -> None:
        for thread in range(1, threads + 1):
            program.aside(thread, (), NATIVE, MS)

    return training(compute_aside, parallelism={"cores": 2.0, "torch threads": 2.0})


def test_threads_of_many_pools() -> None:
    saves_ns = 0.5 * (1 - 2 / 20) * STEP_NS
    assert_found(with_library_threads(20), "too-many-threads", "model.py:7", saves_ns)
    assert found(with_library_threads(8), "too-many-threads") is None


def test_a_slow_step_and_the_line_that_makes_it_slow() -> None:
    program = training(spend(SAVE, NATIVE, 300 * MS), only=[9])
    finding = assert_found(program, "slow-step", "train.py:5", 300 * MS / (STEPS - 1))
    assert finding.title.startswith("Step 9 takes 4.0 times")


def test_a_slow_step_of_many() -> None:
    program = training(spend(PREPARE, PYTHON, 150 * MS), only=[20], steps=41)
    assert_found(program, "slow-step", "train.py:5", 150 * MS / 40)


def held_up() -> Program:
    """Return a program that does the same in every step, but once the machine is busy."""
    program = Program()
    for number in range(STEPS):
        program.step(slower=3 if number == 9 else 1)
    return program


def test_a_slow_step_that_does_nothing_else() -> None:
    finding = found(held_up(), "slow-step")
    assert finding is not None
    assert finding.places == ()
    assert finding.severity is Severity.LOW
    assert finding.saves_ns == pytest.approx(2 * STEP_NS / (STEPS - 1))


def test_steps_that_are_all_alike() -> None:
    assert found(training(nothing), "slow-step") is None


def test_a_slow_step_that_another_finding_explains() -> None:
    program = training(spend(SLEEP, BLOCKED, 300 * MS, WaitReason.SLEEP), only=[9])
    assert_found(program, "waiting-sleep", "train.py:5", 300 * MS / (STEPS - 1))
    assert found(program, "slow-step") is None


def loading(ns: int, iterator: str) -> Work:
    def load(program: Program) -> None:
        with program.recorded(f"enumerate(DataLoader)#{iterator}.__next__"):
            program.sample(LOADER, PYTHON, ns)

    return load


@pytest.mark.parametrize(
    ("iterator", "fix"),
    [
        ("_SingleProcessDataLoaderIter", "Load in the background"),
        ("_MultiProcessingDataLoaderIter", "workers do not keep up"),
    ],
)
def test_data_loading_that_the_steps_wait_for(iterator: str, fix: str) -> None:
    program = training(loading(50 * MS, iterator))
    finding = assert_found(program, "data-loading", "train.py:20", 50 * MS)
    assert fix in finding.fix
    assert found(training(loading(20 * MS, iterator)), "data-loading") is None


def collecting(ns: int) -> Work:
    def collect(program: Program) -> None:
        with program.recorded("Python garbage collection 2"):
            program.sample(PREPARE, PYTHON, ns)

    return collect


def test_garbage_collection() -> None:
    assert_found(training(collecting(10 * MS)), "garbage-collection", "train.py:5", 10 * MS)
    assert found(training(collecting(MS // 2)), "garbage-collection") is None


def test_code_of_a_framework_beside_the_model() -> None:
    draws = (*PREPARE, "torch/distributions/categorical.py(1): Categorical.sample")
    assert_found(training(spend(draws, PYTHON, 40 * MS)), "library-call", "train.py:5", 40 * MS)
    machinery = (*PREPARE, "torch/nn/functional.py(1): cross_entropy")
    assert found(training(spend(machinery, PYTHON, 40 * MS)), "library-call") is None


def test_what_is_as_bad_and_has_a_line_goes_first() -> None:
    """A line that takes little can be fixed; a slow step without a cause cannot."""
    program = Program()
    for number in range(STEPS):
        slower = 3 if number == 9 else 1
        program.sample(SLEEP, BLOCKED, 7 * MS * slower, wait=WaitReason.SLEEP)
        program.step(slower=slower)
    sleep, slow = problems_of(program)
    assert (sleep.id, slow.id) == ("waiting-sleep", "slow-step")
    assert sleep.severity is slow.severity is Severity.LOW
    assert sleep.share < slow.share


def test_the_worst_goes_first() -> None:
    def waste(program: Program) -> None:
        program.sample(PREPARE, PYTHON, 20 * MS)
        program.sample(SLEEP, BLOCKED, 120 * MS, wait=WaitReason.SLEEP)

    severities = {each.id: each.severity for each in problems_of(training(waste))}
    assert severities == {"waiting-sleep": Severity.HIGH, "python-work": Severity.LOW}
    assert list(severities) == ["waiting-sleep", "python-work"]
