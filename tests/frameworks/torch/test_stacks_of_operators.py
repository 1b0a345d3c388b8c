"""The Python stacks of PyTorch's operators, which start without the GIL."""

from __future__ import annotations

import pytest

from python_frames import frames_of, place
from recording import row_of, run_python
from stepscope import profile
from stepscope.record.options import StackMode

pytestmark = pytest.mark.usefixtures("way_to_the_frames")


def test_operators_have_the_stack_of_their_call() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2)

    def outer() -> None:
        middle()

    def middle() -> None:
        inner()

    def inner() -> None:
        torch.add(tensor, tensor)
        tensor.mul(2)
        -tensor  # noqa: B018

    with profile(with_stack=StackMode.OPERATORS) as profiler:
        outer()
    trace = profiler.trace
    callers = [place(middle, 1), place(outer, 1)]
    for name, line in [("aten::add", 1), ("aten::mul", 2), ("aten::neg", 3)]:
        assert frames_of(trace, row_of(trace, name))[:3] == [place(inner, line), *callers]


def test_operators_inside_of_modules() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with profile(with_stack=StackMode.OPERATORS) as profiler:
        model(torch.ones(1, 2))
    trace = profiler.trace
    frames = frames_of(trace, row_of(trace, "aten::addmm"))
    assert frames[0].startswith("torch/nn/modules/linear.py(")
    assert frames[0].endswith("): Linear.forward")
    assert any(frame.endswith("): Sequential.forward") for frame in frames)


def test_a_backward_starts_where_it_was_called() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(2, requires_grad=True)
    loss = weight.exp().sum()
    with profile(with_stack=StackMode.OPERATORS) as profiler:
        loss.backward()
    trace = profiler.trace
    frames = frames_of(trace, row_of(trace, "ExpBackward0"))
    assert any(frame.endswith("): test_a_backward_starts_where_it_was_called") for frame in frames)


def test_threads_without_python_have_no_stack() -> None:
    torch = pytest.importorskip("torch")

    forked = torch.jit.CompilationUnit(
        """
        def task(x):
            return torch.cosh(x)

        def forked(x):
            return torch.jit._wait(torch.jit._fork(task, x))
        """
    ).forked

    with profile(with_stack=StackMode.OPERATORS) as profiler:
        for _ in range(3):
            forked(torch.ones(2))
        torch.sinh(torch.ones(2))
    trace = profiler.trace
    here = trace.slices.track[row_of(trace, "aten::sinh")]
    elsewhere = [
        row
        for row, name in enumerate(trace.names())
        if name == "aten::cosh" and trace.slices.track[row] != here
    ]
    assert elsewhere, "the task ran on no thread of its own"
    assert [frames_of(trace, row) for row in elsewhere] == [[]] * len(elsewhere)


@pytest.mark.slow
def test_new_stacks_while_profilers_come_and_go() -> None:
    """A new stack waits for the GIL; whoever has it may wait for other things."""
    pytest.importorskip("torch")
    done = run_python(
        """
        import faulthandler, threading
        import torch
        from stepscope import profile
        from stepscope.record.options import StackMode
        faulthandler.dump_traceback_later(120, exit=True)
        one = torch.ones(1)
        finished = threading.Event()
        def operators():
            while not finished.is_set():
                exec("for _ in range(3): one.neg()", {"one": one})
        def profilers():
            for _ in range(60):
                with profile(with_stack=StackMode.OPERATORS) as p:
                    one.neg()
                assert "aten::neg" in p.trace.names()
        busy = [threading.Thread(target=operators) for _ in range(3)]
        work = [threading.Thread(target=t) for t in (profilers, profilers)]
        for thread in busy + work:
            thread.start()
        for thread in work:
            thread.join()
        finished.set()
        for thread in busy:
            thread.join()
        print("done")
        """
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
