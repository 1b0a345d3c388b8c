"""Findings about what a loop does beside training: work without gradients, processes, files."""

from __future__ import annotations

import pytest

from host_findings import (
    BLOCKED,
    EVALUATES,
    NATIVE,
    PREPARE,
    PYTHON,
    assert_found,
    finding_of,
    problems_of,
    training,
)
from stepscope.analysis.findings import Finding
from stepscope.trace.model import SliceFlags, WaitReason
from stepscope.trace.schema import NO_SEQUENCE
from training_program import (
    BACKWARD,
    BACKWARD_NS,
    FORWARD,
    FORWARD_NS,
    LOOP,
    MODULE_CALL,
    MS,
    STEP_NS,
    STEPS,
    US,
    Program,
)

HOOK = (*FORWARD, MODULE_CALL, "watch.py(9): Watcher.hook")
LAYER = (*FORWARD, MODULE_CALL, "layers.py(4): Scale.forward", "layers.py(8): Scale.scaled")
MINING = (*LOOP, "train.py(15): step", "mining.py(6): too_close")
AVERAGE = (*LOOP, "train.py(15): step", "average.py(6): Average.follow")
AWAY = (*LOOP, "train.py(16): step", "train.py(40): validate", MODULE_CALL)


def with_graph(beside: str = "", *, sequences: bool = True) -> Program:
    """Return a program that trains with a graph, and does something else besides."""
    program = Program()
    for number in range(STEPS):
        node = 2 * number if sequences else NO_SEQUENCE
        with program.module("Model"):
            if beside == "hook":
                program.operator("aten::sort", 40 * MS, HOOK, sequence=node)
            if beside == "layer":
                program.operator("aten::mean", 40 * MS, LAYER, sequence=node)
            if beside == "frozen":
                program.operator("aten::conv2d", 40 * MS, FORWARD, sequence=node)
            program.operator("aten::conv2d", FORWARD_NS, sequence=node)
        program.backward(BACKWARD_NS, sequence=node)
        if beside == "average":
            program.operator("aten::lerp", 30 * MS, AVERAGE)
            program.sample(AVERAGE, PYTHON, 10 * MS)
        if beside == "reading":
            program.operator("aten::gt", 10 * MS, MINING)
            program.operator("aten::is_nonzero", 30 * MS, MINING)
        if beside == "validation":
            with program.module("Model"):
                program.operator("aten::conv2d", 40 * MS, AWAY, sequence=node + 1)
        if beside == "made for another":
            with program.module("Model"):
                program.operator("aten::conv2d", 40 * MS, FORWARD, sequence=node + 1)
        program.update()
    return program


class TestWorkWithoutGradient:
    def test_a_hook_that_looks_at_activations(self) -> None:
        finding = assert_found(with_graph("hook"), "work-without-gradient", "watch.py:9", 40 * MS)
        assert "mostly aten::sort" in finding.text

    def test_all_of_a_function_that_only_does_such_work(self) -> None:
        assert_found(with_graph("average"), "work-without-gradient", "average.py:6", 40 * MS)

    @pytest.mark.parametrize("beside", ["", "layer", "frozen", "made for another"])
    def test_what_a_model_needs(self, beside: str) -> None:
        program = with_graph(beside)
        assert finding_of(program, "work-without-gradient") is None
        assert finding_of(program, "evaluation-every-step") is None

    def test_what_is_there_to_be_read(self) -> None:
        program = with_graph("reading")
        assert_found(program, "scalar-reads", "mining.py:6", 40 * MS)
        assert finding_of(program, "work-without-gradient") is None

    def test_nothing_is_known_of_gradients(self) -> None:
        assert finding_of(with_graph("average", sequences=False), "work-without-gradient") is None


def test_an_evaluation_that_makes_a_graph() -> None:
    assert_found(with_graph("validation"), "evaluation-every-step", "train.py:40", 40 * MS)


def starting(file: str, function: str, *, only: list[int] | None = None) -> Program:
    stack = (*PREPARE, f"{file}(7): {function}")

    def start(program: Program) -> None:
        program.sample((*stack, "<native call fork>"), NATIVE, 20 * MS)
        program.sample(stack, PYTHON, 10 * MS)
        program.sample(stack, BLOCKED, 20 * MS, wait=WaitReason.PROCESS)

    return training(start, only=only)


class TestStarted:
    @pytest.mark.parametrize(
        ("file", "function", "problem"),
        [
            ("multiprocessing/popen_fork.py", "Popen._launch", "processes-started"),
            ("multiprocessing/pool.py", "Pool.terminate", "processes-started"),
            ("concurrent/futures/process.py", "_launch_processes", "processes-started"),
            ("torch/utils/data/dataloader.py", "DataLoader._get_iterator", "workers-started"),
            ("subprocess.py", "run", "programs-started"),
        ],
    )
    def test_in_every_step(self, file: str, function: str, problem: str) -> None:
        """Waiting for it, starting it, and the Python code around: all is part of it."""
        finding = assert_found(starting(file, function), problem, "train.py:5", 50 * MS)
        assert finding.share == pytest.approx(50 * MS / (50 * MS + STEP_NS), rel=0.01)

    def test_why_a_loader_is_slow_goes_before_that_it_is(self) -> None:
        program = starting("torch/utils/data/dataloader.py", "DataLoader._get_iterator")
        assert [finding.id for finding in problems_of(program)][:2] == [
            "workers-started",
            "data-loading",
        ]

    def test_now_and_then(self) -> None:
        assert finding_of(starting("subprocess.py", "run", only=[5, 9]), "programs-started") is None

    def test_what_a_pool_is_given(self) -> None:
        assert (
            finding_of(starting("multiprocessing/pool.py", "Pool.map"), "processes-started") is None
        )


def test_a_log_that_is_written() -> None:
    stack = (*PREPARE, "json/__init__.py(1): dump")
    program = training(lambda moment: moment.sample(stack, PYTHON, 40 * MS))
    assert_found(program, "writing-in-loop", "train.py:5", 40 * MS)
    assert finding_of(program, "data-in-loop") is None


def own_backward() -> Program:
    """Return a program with a function of its own in the backward pass: a loop over rows."""
    rows = (*BACKWARD, "torch/autograd/function.py(1): apply", "pool.py(8): Pool.backward")
    program = Program()
    for _ in range(STEPS):
        program.forward(5 * MS)
        with (
            program.recorded("evaluate_function: PoolBackward", "cpu_op"),
            program.recorded("PoolBackward", "cpu_op", flags=SliceFlags.BACKWARD),
        ):
            for _ in range(300):
                program.operator("aten::select", 15 * US, rows)
                program.sample(rows, PYTHON, 50 * US)
        program.update(5 * MS)
    return program


def test_tiny_operators_in_a_backward_function_of_the_program() -> None:
    finding = finding_of(own_backward(), "tiny-operators")
    assert isinstance(finding, Finding)
    assert (finding.places[0].file, finding.places[0].line) == ("pool.py", 8)


def in_one_call(name: str) -> Program:
    """Return a program that runs many small operators inside one slice, each differentiated."""
    program = Program()
    for number in range(STEPS):
        first = 200 * number
        with program.module("Model"), program.recorded(name, "cpu_op", sequence=first):
            for at in range(200):
                program.operator("aten::mul", 15 * US, sequence=first + at)
        for at in reversed(range(200)):
            with program.recorded(
                "MulBackward0", "cpu_op", sequence=first + at, flags=SliceFlags.BACKWARD
            ):
                program.operator("aten::mul", 15 * US, BACKWARD)
        program.update(1 * MS)
    return program


def test_the_steps_of_a_recurrent_layer_are_one_call() -> None:
    assert finding_of(in_one_call("aten::gru"), "tiny-operators") is None
    assert finding_of(in_one_call("MyCell"), "tiny-operators") is not None


def test_a_loader_that_works_in_a_thread() -> None:
    """Its line is named, not the one that waits for it."""
    waits = (*LOOP, "paddle/io/dataloader/dataloader_iter.py(1): __next__")
    works = (
        "threading.py(1): run",
        "paddle/io/dataloader/dataloader_iter.py(2): _thread_loop",
        "words.py(3): Words.__getitem__",
    )

    def load(program: Program) -> None:
        program.aside(1, works, PYTHON, 50 * MS)
        with program.recorded("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            program.sample(waits, BLOCKED, 50 * MS, wait=WaitReason.LOCK)

    assert_found(training(load), "data-loading", "words.py:3", 50 * MS)


def test_evaluation_is_no_work_without_gradient() -> None:
    def evaluate(program: Program) -> None:
        with program.module("Model", grad=False):
            program.operator("aten::conv2d", 30 * MS, (*EVALUATES, MODULE_CALL))

    assert finding_of(training(evaluate), "work-without-gradient") is None
