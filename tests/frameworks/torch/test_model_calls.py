"""Calls of models, recorded by default in `run`: which, what is told of them, and that no program
notices.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import re
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import stepscope
from module_recording import module_args, module_names, module_rows
from recording import chain_of, run_python, thread_of, trace_of
from stepscope import record_function
from stepscope.frameworks.torch.modules import TorchModelCalls, TorchModules
from stepscope.record.options import RecordOptions
from stepscope.record.session import Session
from stepscope.record.source import make_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace

INPUT = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x))


@contextlib.contextmanager
def models_recorded() -> Iterator[Session]:
    session = Session([*make_sources(), TorchModelCalls()])
    session.start()
    try:
        yield session
    finally:
        session.stop()
        assert "__init_subclass__" not in vars(nn.Module)


def recorded(run: Callable[[], object]) -> Trace:
    with models_recorded() as session:
        run()
    return trace_of(session)


# ---- which calls, and what is told


def test_only_calls_outside_of_any_other_are_recorded() -> None:
    net, loss = Net(), nn.MSELoss()

    def step() -> None:
        loss(net(INPUT), INPUT).backward()

    trace = recorded(lambda: [step() for _ in range(3)])
    assert module_names(trace) == ["Net", "MSELoss"] * 3
    row = next(r for r in range(len(trace)) if trace.name_of(r) == "aten::addmm")
    assert chain_of(trace, row)[-1] == "Net"


def test_training_mode_and_gradients_are_told() -> None:
    net = Net()
    inference = torch.inference_mode()(lambda: net(INPUT))

    def run() -> None:
        net(INPUT)
        net.eval()
        net(INPUT)
        with torch.no_grad():
            net(INPUT)
        inference()

    trace = recorded(run)
    rows = module_rows(trace)
    calls = [trace.slices.args.of_row(row, trace.strings) for row in rows]
    assert [(call["Training"], call["Grad"]) for call in calls] == [(1, 1), (0, 1), (0, 0), (0, 0)]
    assert {call["Class"] for call in calls} == {"Net"}


def test_run_records_them_unless_all_modules_are_recorded() -> None:
    sources = make_sources(RecordOptions(model_calls=True, modules=True))
    session = Session(sources)
    session.start()
    nn.Sequential(nn.ReLU())(INPUT)
    session.stop()
    assert module_names(trace_of(session)) == ["Sequential", "0"]


def test_classes_made_while_recording_are_seen() -> None:
    def run() -> None:
        class Late(Net):
            pass

        Late()(INPUT)

    assert module_names(recorded(run)) == ["Late"]


def test_a_class_with_init_subclass_of_its_own_is_made_as_ever() -> None:
    made = []

    class Base(nn.Module):
        def __init_subclass__(cls, word: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            made.append(word)

    class Mixin:
        def __init_subclass__(cls, other: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            made.append(other)

    def run() -> None:
        class Late(Base, Mixin, word="a", other="b"):
            def forward(self, x: Any) -> Any:
                return x

        assert Late()(3) == 3
        with pytest.raises(TypeError, match="takes no keyword arguments"):

            class Wrong(nn.Module, word="c"):  # type: ignore[call-arg]
                pass

    assert module_names(recorded(run)) == ["Late"]
    assert made == ["b", "a"]


def test_a_forward_that_fails_ends_its_call_and_the_next_is_seen() -> None:
    class Failing(nn.Module):
        def forward(self) -> None:
            raise KeyError("no")

    def run() -> None:
        with pytest.raises(KeyError) as raised:
            Failing()()
        frames = traceback.extract_tb(raised.value.__traceback__)
        package = Path(stepscope.__file__).parent
        assert not any(Path(frame.filename).is_relative_to(package) for frame in frames)
        nn.Identity()(INPUT)

    trace = recorded(run)
    assert module_names(trace) == ["Failing", "Identity"]
    assert not trace.slices.flags[module_rows(trace)].any()


def test_each_thread_has_its_own_outermost_calls() -> None:
    net = Net()

    def run() -> None:
        threads = [threading.Thread(target=net, args=(INPUT,), name=f"t{i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = recorded(run)
    assert module_names(trace) == ["Net"] * 4
    assert {thread_of(trace, row) for row in module_rows(trace)} == {"t0", "t1", "t2", "t3"}


def test_a_module_without_a_training_mode_is_recorded_without_it() -> None:
    class Odd(nn.Module):
        training = property(lambda self: 1 / 0)  # type: ignore[assignment]

        def __init__(self) -> None:
            object.__init__(self)

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("do not look at me")

        def __call__(self, x: Any) -> Any:
            return x

    trace = recorded(lambda: Odd()(3))
    assert module_args(trace)["Odd"] == {"Class": "Odd", "Grad": 1}


# ---- programs do not notice


def test_nothing_of_torch_changes_that_a_program_can_look_at() -> None:
    call, plain = vars(nn.Module)["__call__"], Net.__call__
    with models_recorded():
        assert vars(nn.Module)["__call__"] is call
        assert Net.__call__ is plain
        assert vars(Net()).keys() == vars(Net()).keys()
        model = Net()
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        assert torch.equal(copied(INPUT), pickled(INPUT))
        parameters = dict(model.named_parameters())
        assert torch.equal(torch.func.functional_call(model, parameters, (INPUT,)), model(INPUT))


def test_torch_functions_of_the_program_are_not_asked() -> None:
    from torch.overrides import TorchFunctionMode

    asked = []

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func)
            return func(*args, **(kwargs or {}))

    net = Net()
    with Mode():
        net(INPUT)
    plain, asked = asked, []
    with models_recorded(), Mode():
        net(INPUT)
    assert asked == plain


def compiled_with_guards(model: nn.Module) -> tuple[Any, list[str], list[str]]:
    """Return the compiled model, and its graphs and guards when it is first called."""
    import logging

    from torch._dynamo.testing import EagerAndRecordGraphs

    graphs = EagerAndRecordGraphs()
    guards: list[str] = []

    class Guards(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            guards.append(record.getMessage())

    handler = Guards()
    log = logging.getLogger("torch._dynamo.guards.__guards")
    torch._logging.set_logs(guards=True)
    log.addHandler(handler)
    try:
        compiled = torch.compile(model, backend=graphs, fullgraph=True)
        compiled(INPUT)
    finally:
        log.removeHandler(handler)
        torch._logging.set_logs()
    return compiled, [graph.code for graph in graphs.graphs], guards


def test_graphs_and_guards_of_torch_compile_are_the_same() -> None:
    compiled_with_guards(Net())  # the first compilation of a process has guards of its own
    torch._dynamo.reset()
    _, graphs, guards = compiled_with_guards(Net())
    torch._dynamo.reset()
    with models_recorded() as session:
        _, graphs_during, guards_during = compiled_with_guards(Net())
    assert graphs
    assert graphs_during == graphs
    assert [_without_ids(guard) for guard in guards_during] == [
        _without_ids(guard) for guard in guards
    ]
    assert module_names(trace_of(session)) == ["OptimizedModule"]


def test_compiled_code_is_not_compiled_again() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    before = torch.compile(Net(), backend=counter, fullgraph=True)
    during = torch.compile(nn.Sequential(nn.Tanh()), backend=counter, fullgraph=True)
    before(INPUT)
    with models_recorded():
        before(INPUT)
        assert counter.frame_count == 1
        during(INPUT)
        assert counter.frame_count == 2
    before(INPUT)
    during(INPUT)
    assert counter.frame_count == 2


def _without_ids(guard: str) -> str:
    """Leave out addresses, times, and the numbers of names that Dynamo counts."""
    return re.sub(r"\d{6,}|0x[0-9a-f]+|\d+\.\d+|___\d+", "#", guard)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripts_traces_symbolic_traces_and_exports_can_be_made_and_run() -> None:
    model = Net()
    plain = model(INPUT)

    def run() -> None:
        for made in (
            torch.jit.trace(model, INPUT),
            torch.jit.script(model),
            torch.fx.symbolic_trace(model),
            torch.export.export(model, (INPUT,)).module(),
        ):
            with record_function("made"):
                assert torch.equal(made(INPUT), plain)
        model(INPUT)

    trace = recorded(run)
    # Symbolic tracing replaces __call__ for a while: what is called afterwards is still seen.
    assert module_names(trace)[-1] == "Net"
    calls = [chain_of(trace, row)[1:] for row in module_rows(trace)]
    assert calls.count(("made",)) == 4


# ---- nothing is left behind


def test_all_modules_of_another_recording_come_between_and_are_not_recorded_twice() -> None:
    with models_recorded() as outer:
        Net()(INPUT)
        nested = TorchModules()
        nested.start()

        class Late(Net):
            pass

        Late()(INPUT)
        nested.stop()
        Late()(INPUT)
    names = module_names(trace_of(outer))
    assert names == ["Net", "Late", "first", "rest", "rest.0", "rest.1", "Late"]


def test_a_forked_child_is_as_without_us() -> None:
    with models_recorded() as session:
        child = os.fork()
        if not child:
            plain = "__init_subclass__" not in vars(nn.Module)
            os._exit(0 if plain and torch.equal(nn.Identity()(INPUT), INPUT) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        Net()(INPUT)
    assert module_names(trace_of(session)) == ["Net"]


def test_recordings_share_it_and_the_last_leaves_nothing() -> None:
    with models_recorded() as outer:
        nested = TorchModelCalls()
        nested.start()
        Net()(INPUT)
        nested.stop()
        nested.stop()  # harmless
        Net()(INPUT)
    assert module_names(trace_of(outer)) == ["Net", "Net"]
    session = Session([*make_sources()])
    session.start()
    Net()(INPUT)
    session.stop()
    assert module_names(trace_of(session)) == []


def test_a_torch_that_is_imported_later_is_recorded() -> None:
    done = run_python(
        """
        import sys
        from stepscope.record.session import Session
        from stepscope.frameworks.torch.modules import TorchModelCalls
        session = Session([TorchModelCalls()])
        session.start()
        assert "torch" not in sys.modules
        import torch
        torch.nn.Sequential(torch.nn.ReLU())(torch.ones(1))
        session.stop()
        print([name for name in session.trace.names() if not name.startswith("import")])
        """
    )
    assert done.stdout.strip() == "['Sequential']", done.stderr


def test_a_module_of_the_programs_own_that_is_called_torch_is_left_alone(tmp_path: Any) -> None:
    (tmp_path / "torch.py").write_text("answer = 42")
    done = run_python(
        """
        from stepscope.record.session import Session
        from stepscope.frameworks.torch.modules import TorchModelCalls
        session = Session([TorchModelCalls()])
        session.start()
        import torch
        session.stop()
        print(torch.answer)
        """,
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert done.stdout.strip() == "42", done.stderr
