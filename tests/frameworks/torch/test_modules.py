"""Module calls in the trace: what they are called, and that programs do not notice."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from module_recording import (
    PLAIN_CALL,
    module_args,
    module_names,
    module_rows,
    modules_recorded,
    recorded,
)
from recording import chain_of, run_python, thread_of, trace_of
from stepscope import profile
from stepscope.frameworks.torch.modules import TorchModules


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x * self.scale


class Failing(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner(x)
        raise self.error


INPUT = torch.ones(2, 4)


# ---- names


def test_modules_go_by_their_qualified_names_and_a_model_by_its_class() -> None:
    trace = recorded(lambda: Net()(INPUT))
    assert module_names(trace) == [
        "Net",
        *("blocks.0", "blocks.0.first", "blocks.0.second"),
        *("blocks.1", "blocks.1.first", "blocks.1.second"),
    ]
    row = next(r for r in range(len(trace)) if trace.name_of(r) == "aten::addmm")
    assert chain_of(trace, row)[-3:] == ("blocks.0.first", "blocks.0", "Net")


def test_their_classes_and_parameters_are_kept() -> None:
    args = module_args(recorded(lambda: Net()(INPUT)))
    counts = {"Parameters": 148, "Own parameters": 4}
    assert args["Net"] == {"Class": "Net", **counts, "Training": 1, "Grad": 1}
    assert args["blocks.0"] == {"Class": "Block", "Parameters": 72, "Own parameters": 0}
    assert args["blocks.0.first"]["Own parameters"] == 40
    assert args["blocks.0.second"] == {"Class": "Linear", "Parameters": 32, "Own parameters": 32}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_transformer_shows_every_module_that_it_calls() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32)
    encoder = nn.TransformerEncoder(layer, 3)
    names = module_names(recorded(lambda: encoder(torch.randn(5, 2, 16))))
    called = {name for name, _ in encoder.named_modules() if name}
    called -= {"layers", *(f"layers.{i}.self_attn.out_proj" for i in range(3))}  # functional there
    assert sorted(names) == sorted({"TransformerEncoder", *called})


def test_a_submodule_called_on_its_own_is_a_model_itself() -> None:
    net = Net()
    names = module_names(recorded(lambda: net.blocks[1](INPUT)))
    assert names == ["Block", "first", "second"]


def test_a_shared_module_has_its_first_name() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    assert module_names(recorded(lambda: model(INPUT))) == ["Sequential", "0", "1", "0"]


def test_a_module_that_calls_itself_is_nested_in_itself() -> None:
    class Countdown(nn.Module):
        def forward(self, n: int) -> int:
            return n if n == 0 else self(n - 1)

    trace = recorded(lambda: Countdown()(2))
    assert module_names(trace) == ["Countdown"] * 3
    assert chain_of(trace, module_rows(trace)[-1]) == ("Countdown",) * 3


def test_a_module_that_was_added_is_noticed_in_the_same_recording() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with modules_recorded() as session:
        model(INPUT)
        model.append(nn.Tanh())
        model(INPUT)
        model.insert(0, nn.Sigmoid())  # renames those after it
        model(INPUT)
    names = ["Sequential", "0", *("Sequential", "0", "1"), *("Sequential", "0", "1", "2")]
    trace = trace_of(session)
    assert module_names(trace) == names
    classes = [trace.slices.args.of_row(row, trace.strings)["Class"] for row in module_rows(trace)]
    assert classes[-3:] == ["Sigmoid", "Linear", "Tanh"]


def test_a_model_that_changed_between_recordings_is_looked_at_anew() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    recorded(lambda: model(INPUT))
    model[0], model[1] = model[1], model[0]
    args = module_args(recorded(lambda: model(INPUT)))
    assert (args["0"]["Class"], args["1"]["Class"]) == ("ReLU", "Linear")


def test_a_module_that_is_not_part_of_the_model_goes_by_its_class() -> None:
    class Makes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.Sequential(nn.ReLU(), nn.Tanh())(nn.Sigmoid()(x))

    names = module_names(recorded(lambda: Makes()(INPUT)))
    assert names == ["Makes", "Sigmoid", "Sequential", "Sequential.0", "Sequential.1"]


def test_a_lazy_module_is_counted_when_it_knows_its_parameters() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    with modules_recorded() as session:
        model(INPUT)
        model(INPUT)
    trace = trace_of(session)
    first, second = (
        trace.slices.args.of_row(row, trace.strings)
        for row in module_rows(trace)
        if trace.name_of(row) == "0"
    )
    assert first == {"Class": "LazyLinear", "Parameters": 0, "Own parameters": 0}
    assert second == {"Class": "Linear", "Parameters": 15, "Own parameters": 15}


def test_recording_keeps_no_model_alive() -> None:
    with modules_recorded():
        model = Net()
        model(INPUT)
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None


# ---- programs do not notice


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_an_exception_in_forward_goes_on_and_ends_the_calls(error: BaseException) -> None:
    model = nn.Sequential(Failing(error))
    with modules_recorded() as session:
        with pytest.raises(type(error)):
            model(INPUT)
        nn.Identity()(INPUT)
    trace = trace_of(session)
    assert module_names(trace) == ["Sequential", "0", "0.inner", "Identity"]
    assert not trace.slices.flags[module_rows(trace)].any()  # none is unfinished
    assert chain_of(trace, module_rows(trace)[-1]) == ("Identity",)


def test_forward_may_run_in_many_threads_at_once() -> None:
    model, together = Net(), threading.Barrier(8)

    def call() -> None:
        together.wait()
        for _ in range(20):
            model(INPUT)

    with modules_recorded() as session, ThreadPoolExecutor(8) as pool:
        for task in [pool.submit(call) for _ in range(8)]:
            task.result()
    trace = trace_of(session)
    assert len(module_rows(trace)) == 8 * 20 * 7
    for row in module_rows(trace):
        if trace.name_of(row) == "blocks.1.second":
            assert chain_of(trace, row) == ("blocks.1.second", "blocks.1", "Net")
    assert len({thread_of(trace, row) for row in module_rows(trace)}) == 8


def test_calls_nest_in_a_task_as_outside_of_one() -> None:
    """A notebook runs its cells in a task: calls, modules and operators are inside each other."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def chain() -> tuple[str, ...]:
        with profile(with_stack=True, with_modules=True) as profiler:
            model(torch.ones(1, 4))
        trace = profiler.trace
        row = next(row for row in range(len(trace)) if trace.name_of(row) == "aten::linear")
        chain = chain_of(trace, row)
        return chain[: chain.index("Sequential") + 1]

    async def task() -> tuple[str, ...]:
        return chain()

    outside = chain()
    assert "0" in outside
    assert any("linear.py" in name for name in outside)
    assert asyncio.run(task()) == outside


def test_replicas_of_data_parallel_work() -> None:
    names = module_names(recorded(lambda: nn.DataParallel(Block())(INPUT)))
    assert names == ["DataParallel", "module", "module.first", "module.second"]
    replica = Block()._replicate_for_data_parallel()  # as it makes one for each device
    assert module_names(recorded(lambda: replica(INPUT))) == ["Block", "first", "second"]


def test_hooks_see_and_change_what_they_did_before() -> None:
    model = nn.Sequential(nn.Identity())
    model[0].register_forward_pre_hook(lambda _module, args: (args[0] + 1,))
    model[0].register_forward_hook(lambda _module, _args, out: out * 2)
    plain = model(INPUT)
    with modules_recorded():
        assert torch.equal(model(INPUT), plain)


def test_any_keyword_reaches_forward() -> None:
    class Takes(nn.Module):
        def forward(self, **kwargs: int) -> dict[str, int]:
            return kwargs

    with modules_recorded():
        assert Takes()(module=1, args=2, model=3, names=4) == {
            "module": 1,
            "args": 2,
            "model": 3,
            "names": 4,
        }


def test_a_class_with_its_own_call_goes_on_through_it() -> None:
    class Own(nn.Module):
        def __call__(self, x: Any) -> Any:
            return ("own", super().__call__(x))

        def forward(self, x: Any) -> Any:
            return x

    with modules_recorded() as session:
        assert Own()(3) == ("own", 3)
    assert module_names(trace_of(session)) == ["Own"]


def test_a_model_that_cannot_be_looked_at_is_still_called() -> None:
    class Odd(nn.Module):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare me")

        def named_modules(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("do not look at me")

        def forward(self, x: Any) -> Any:
            return x

    with modules_recorded() as session:
        assert Odd()(3) == 3
    assert module_args(trace_of(session))["Odd"] == {"Class": "Odd", "Training": 1, "Grad": 1}


def test_copies_and_pickles_made_while_recording_are_plain() -> None:
    model = Net()
    with modules_recorded() as session:
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        assert torch.equal(copied(INPUT), pickled(INPUT))
    assert module_names(trace_of(session)).count("Net") == 2
    assert vars(model).keys() == vars(Net()).keys()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripts_traces_and_symbolic_traces_can_be_made_and_run() -> None:
    model = Block()
    plain = model(INPUT)
    with modules_recorded():
        for made in (
            torch.jit.trace(model, INPUT),
            torch.jit.script(model),
            torch.fx.symbolic_trace(model),
        ):
            assert torch.equal(made(INPUT), plain)
    assert torch.equal(made(INPUT), plain)


def test_compiled_code_is_neither_broken_nor_compiled_again() -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()

    def compiled(model: nn.Module) -> Any:
        return torch.compile(model, backend=counter, fullgraph=True)

    hooked = nn.Sequential(nn.Linear(4, 4))
    hooked[0].register_forward_hook(lambda _module, _args, out: out + 1)
    before, during, with_hook = compiled(Net()), compiled(Block()), compiled(hooked)
    before(INPUT)
    with modules_recorded() as session:
        before(INPUT)
        assert counter.frame_count == 1
        during(INPUT)
        with_hook(INPUT)
        assert counter.frame_count == 3
    for model in (before, during, with_hook):
        model(INPUT)
    assert counter.frame_count == 3
    assert set(module_names(trace_of(session))) == {"OptimizedModule"}


# ---- nothing is left behind


def test_two_recordings_at_once_share_one_change() -> None:
    with modules_recorded() as outer:
        nested = TorchModules()
        nested.start()
        Block()(INPUT)
        nested.stop()
        nested.stop()  # harmless
        Block()(INPUT)
    assert module_names(trace_of(outer)).count("Block") == 2


def test_somebody_elses_wrapper_stays_and_nothing_is_recorded_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def theirs(self: nn.Module, *args: Any) -> Any:
        return PLAIN_CALL(self, *args)

    source = TorchModules()
    source.start()
    with monkeypatch.context() as patched:
        patched.setattr(nn.Module, "__call__", theirs)
        source.stop()
        assert vars(nn.Module)["__call__"] is theirs
        with pytest.raises(AssertionError), modules_recorded() as session:
            Block()(INPUT)
        assert module_names(trace_of(session)) == ["Block", "first", "second"]
        assert vars(nn.Module)["__call__"] is theirs
    assert module_names(recorded(lambda: Block()(INPUT))) == ["Block", "first", "second"]


def test_a_forked_child_records_no_calls() -> None:
    from stepscope import _native

    with modules_recorded() as session:
        child = os.fork()
        if not child:
            os._exit(_native.watch_calls(nn.Module))  # whether it was watched
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        Block()(INPUT)
    assert module_names(trace_of(session)) == ["Block", "first", "second"]


def test_a_torch_that_is_imported_later_is_recorded() -> None:
    done = run_python(
        """
        import sys
        from stepscope.record.session import Session
        from stepscope.frameworks.torch.modules import TorchModules
        session = Session([TorchModules()])
        session.start()
        assert "torch" not in sys.modules
        import torch
        torch.nn.Sequential(torch.nn.ReLU())(torch.ones(1))
        session.stop()
        trace = session.trace
        print([name for name in trace.names() if not name.startswith(("import", "stepscope"))])
        """
    )
    assert done.stdout.strip() == "['Sequential', '0']", done.stderr


def test_ctrl_c_while_modules_are_named_ends_the_program() -> None:
    """Naming them is ours, and fails silently; the interruption is the program's."""

    class Interrupted(nn.Module):
        def named_modules(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        def forward(self, x: Any) -> Any:
            return x

    model = Interrupted()
    with profile(with_modules=True), pytest.raises(KeyboardInterrupt):
        for _ in range(100):  # it is raised at the next instruction
            model(torch.ones(1))
