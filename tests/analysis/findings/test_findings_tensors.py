"""Problems with tensors, and what changes over the steps, in recordings written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from host_findings import (
    EVALUATES,
    PREPARE,
    READS,
    TEACHER,
    assert_found,
    finding_of,
    spend,
    training,
)
from stepscope.analysis.findings import Severity, find_problems
from stepscope.trace.model import NO_SEQUENCE, ThreadState
from training_program import (
    BACKWARD_NS,
    MIB,
    MODULE_CALL,
    MS,
    OPTIMIZER,
    STEPS,
    US,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Work = Callable[[Program], None]

PYTHON, NATIVE, GIL = ThreadState.PYTHON, ThreadState.NATIVE, ThreadState.GIL


def reading(times: int, compute_ns: int, read_ns: int) -> Work:
    """Compute something on a line and read it there, some times in a step."""

    def read(program: Program) -> None:
        for _ in range(times):
            program.operator("aten::select", compute_ns, READS)
            program.operator("aten::item", read_ns, READS)

    return read


def test_one_read_a_step_is_no_problem() -> None:
    assert finding_of(training(reading(1, 100 * US, 900 * US)), "scalar-reads") is None


def test_a_line_that_reads_often_is_there_to_read() -> None:
    program = training(reading(40, 800 * US, 200 * US))
    finding = assert_found(program, "scalar-reads", "train.py:30", 40 * MS)
    assert "40 reads a step" in finding.text


def test_a_line_is_there_to_read_where_much_of_a_step_is_reading() -> None:
    """Every other operator is a read, however short."""
    program = training(reading(40, 950 * US, 50 * US))
    assert_found(program, "scalar-reads", "train.py:30", 40 * MS)


def test_a_line_that_reads_seldom_is_there_to_compute() -> None:
    program = training(reading(4, 8 * MS, 2 * MS))
    assert_found(program, "scalar-reads", "train.py:30", 8 * MS)


def test_a_line_is_there_to_read_if_its_text_says_so(tmp_path: Path) -> None:
    text = ["pass"] * 40
    text[29] = "largest = weight.grad.abs().max().item()"
    (tmp_path / "train.py").write_text("\n".join(text))
    trace = training(reading(40, 980 * US, 20 * US)).trace()
    (alone,) = [finding for finding in find_problems(trace) if finding.id == "scalar-reads"] or [
        None
    ]
    info = replace(trace.info, code_folders=(str(tmp_path),), wall_offset_ns=0)
    (read,) = [
        finding
        for finding in find_problems(replace(trace, info=info))
        if finding.id == "scalar-reads"
    ]
    assert read.saves_ns == pytest.approx(40 * MS, rel=0.01)
    assert alone is None or alone.saves_ns < 5 * MS


def test_printing_tensors() -> None:
    prints = (*PREPARE, "torch/_tensor.py(1): __repr__", "torch/_tensor_str.py(1): _str")
    assert_found(training(spend(prints, PYTHON, 30 * MS)), "scalar-reads", "train.py:5", 30 * MS)


def test_tensors_that_are_joined_in_every_step() -> None:
    """A cache of keys and values, say: its whole is copied for each token."""
    program = training(lambda program: program.operator("aten::cat", 40 * MS, PREPARE))
    finding = assert_found(program, "redundant-copies", "train.py:5", 40 * MS)
    assert finding.title.startswith("Joining tensors takes")
    assert "with room for all" in finding.fix
    few = training(lambda program: program.operator("aten::cat", 12 * MS, PREPARE))
    assert finding_of(few, "redundant-copies") is None


@pytest.mark.parametrize("name", ["aten::copy_", "aten::to"])
def test_copies_of_tensors(name: str) -> None:
    program = training(lambda program: program.operator(name, 40 * MS, PREPARE))
    assert_found(program, "redundant-copies", "train.py:5", 40 * MS)
    few = training(lambda program: program.operator(name, 10 * MS, PREPARE))
    assert finding_of(few, "redundant-copies") is None


def test_other_operators_are_no_copies() -> None:
    program = training(lambda program: program.operator("aten::add", 40 * MS, PREPARE))
    assert finding_of(program, "redundant-copies") is None


def test_copies_of_arrays() -> None:
    copies = training(spend((*PREPARE, "<native call image.astype>"), NATIVE, 40 * MS))
    assert_found(copies, "redundant-copies", "train.py:5", 40 * MS)
    sums = training(spend((*PREPARE, "<native call image.sum>"), NATIVE, 40 * MS))
    assert finding_of(sums, "redundant-copies") is None


def test_copies_of_the_optimizer_are_its_own() -> None:
    program = Program()
    for _ in range(STEPS):
        program.forward()
        program.backward(BACKWARD_NS)
        with program.recorded("Optimizer.step#SGD.step"):
            program.operator("aten::copy_", 40 * MS, OPTIMIZER)
    assert finding_of(program, "redundant-copies") is None


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
    assert finding_of(training(evaluating(model=1), only=[6, 12]), "evaluation-every-step") is None


def test_a_teacher_is_not_evaluated() -> None:
    assert finding_of(training(evaluating(model=2)), "evaluation-every-step") is None


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
    assert finding_of(program, "autograd-in-inference") is None


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
    assert finding_of(inference(grad=False), "autograd-in-inference") is None


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


def test_python_between_operators_is_what_calling_them_takes() -> None:
    assert (
        finding_of(small_operators(operator_ns=18 * US, python_ns=62 * US), "python-work") is None
    )


def test_operators_with_nothing_to_do() -> None:
    tiny = small_operators(operator_ns=18 * US, python_ns=62 * US)
    assert_found(tiny, "tiny-operators", "train.py:30", 0.8 * 24 * MS)
    long = small_operators(operator_ns=62 * US, python_ns=18 * US)
    assert finding_of(long, "tiny-operators") is None


def test_tiny_operators_that_read_scalars_have_another_finding() -> None:
    program = small_operators(operator_ns=18 * US, python_ns=62 * US, read="aten::item")
    assert_found(program, "scalar-reads", "train.py:30", 24 * MS)
    assert finding_of(program, "tiny-operators") is None


def keeping(*, last: int = STEPS, grows: bool = True) -> Program:
    """Return a program that keeps 10 MiB of each step up to the last one that does."""
    program = Program()
    for number in range(STEPS):
        program.resident(500 * MIB + 10 * MIB * min(number, last) * grows)
        if number < last:
            program.keep(PREPARE, 10 * MIB)
        program.step()
    return program


def test_memory_that_grows_with_every_step() -> None:
    finding = assert_found(keeping(), "memory-growth", "train.py:5", 0)
    assert "10.0 MiB a step" in finding.title
    assert finding.severity is not Severity.LOW  # it never ends


def test_memory_that_only_the_first_steps_keep() -> None:
    assert finding_of(keeping(last=4), "memory-growth") is None


def test_memory_that_nobody_recorded_has_no_line() -> None:
    """A line that runs meanwhile is not named: it may keep nothing."""
    program = Program()
    for number in range(STEPS):
        program.resident(200 * MIB + 10 * MIB * number)
        program.sample(PREPARE, PYTHON, 10 * MS)
        program.step()
    finding = finding_of(program, "memory-growth")
    assert finding is not None
    assert finding.title.endswith("a step: line unknown")
    assert not finding.places
    assert "`stepscope run`" in finding.text


def test_memory_that_is_replaced() -> None:
    assert finding_of(keeping(grows=False), "memory-growth") is None


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
    assert finding_of(program, "graph-kept") is None


def test_steps_that_wait_longer_and_longer_for_a_core() -> None:
    program = Program()
    for number in range(STEPS):
        program.sample(PREPARE, PYTHON, 50 * MS)
        program.sample(PREPARE, ThreadState.READY, number * GROWS_BY_NS)
        program.step()
    assert finding_of(program, "slowing-steps") is None


def test_steps_that_are_slower_all_at_once() -> None:
    """The machine is used by others from then on; each step takes a little longer, too."""
    program = Program()
    for number in range(STEPS):
        late_ns = 300 * MS if number > 2 * STEPS // 3 else 0
        program.sample(PREPARE, PYTHON, 50 * MS + number * MS + late_ns)
        program.step()
    assert finding_of(program, "slowing-steps") is None


def test_python_code_that_takes_as_long_in_every_step() -> None:
    assert finding_of(training(spend(PREPARE, PYTHON, 50 * MS)), "slowing-steps") is None


def test_a_graph_that_grows_with_every_step() -> None:
    program = backward_growing(GROWS_BY_NS, functions=True)
    assert_found(program, "graph-kept", "train.py:13", GROWN_NS)
    assert finding_of(program, "slowing-steps") is None


def test_a_backward_pass_that_only_takes_longer() -> None:
    program = backward_growing(GROWS_BY_NS, functions=False)
    assert_found(program, "slowing-steps", "train.py:13", GROWN_NS)
    assert finding_of(program, "graph-kept") is None


def test_the_same_work_on_a_machine_that_slows_down() -> None:
    program = backward_growing(3 * MS, functions=False)
    assert finding_of(program, "slowing-steps") is None
    assert finding_of(program, "graph-kept") is None


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
    assert finding_of(two_losses(one_graph=False), "graph-kept") is None
