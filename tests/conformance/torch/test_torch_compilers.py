"""Programs that compile and trace: ranges in them, and what a recording changes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.part(x))


def graphs_of(function: Callable[..., Any], *args: Any, calls: int = 1) -> list[str]:
    """Return the graphs that Dynamo makes of a function, whole or not at all."""
    collected: list[str] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        collected.append(str(graph.graph))
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(calls):
        compiled(*args)
    return collected


def ranged(range_type: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    outside = range_type("outside")

    @range_type("decorated")
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return x.cos()

    def function(x: torch.Tensor) -> torch.Tensor:
        with range_type("inside"):
            x = x.sin()
        with range_type("with a text", "text"), outside:
            x = x + 1
        return decorated(x)

    return function


@pytest.mark.parametrize("captured", [False, True])
def test_ranges_compile_as_torchs_do(captured: bool) -> None:
    x = torch.ones(3)
    with torch._dynamo.config.patch(capture_profiler_record_function=captured):
        theirs = graphs_of(ranged(torch.profiler.record_function), x)
        with stepscope.profile() as prof:
            ours = graphs_of(ranged(stepscope.record_function), x, calls=2)
    assert ours == theirs
    names = [e.name for e in prof.events() if e.name in ("inside", "outside", "decorated")]
    assert names == (["inside", "outside", "decorated"] * 2 if captured else [])


EVERYTHING = {
    "with_stack": True,
    "record_shapes": True,
    "profile_memory": True,
    "with_modules": True,
}
MAKERS: dict[str, Callable[[Model, torch.Tensor], str]] = {
    "export": lambda model, x: str(torch.export.export(model, (x,), strict=True).graph),
    "loose export": lambda model, x: str(torch.export.export(model, (x,), strict=False).graph),
    "script": lambda model, _: str(torch.jit.script(model).code),
    "trace": lambda model, x: str(torch.jit.trace(model, x).code),
    "make_fx": lambda model, x: str(make_fx(model)(x).graph),
    "compile": lambda model, x: str(graphs_of(model, x, calls=2)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_recording_changes_no_graph(maker: str) -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.ones(2, 4)
    bare = MAKERS[maker](model, x)
    with stepscope.profile(**EVERYTHING):
        recorded = MAKERS[maker](model, x)
        hooks = len(torch.nn.modules.module._global_forward_pre_hooks)
    assert recorded == bare
    assert not hooks


def small_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))


def test_tensors_are_not_looked_at_in_a_graph_that_is_traced() -> None:
    """Tracing makes a second graph to check the first; modules are new to us in one of them."""
    bare = torch.jit.trace(small_model(), torch.ones(2, 4))
    with stepscope.profile(**EVERYTHING):
        recorded = torch.jit.trace(small_model(), torch.ones(2, 4))
    assert recorded.code == bare.code


class Log(TorchFunctionMode):
    """Keeps which functions of torch are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_sees_its_own_calls_only() -> None:
    def called() -> list[str]:
        model = small_model()
        optimizer = torch.optim.Adam(model.parameters())
        with Log() as log:
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(3, 4)).sum().backward()
                optimizer.step()
        return log.names

    called()  # the first optimizer of a process imports more
    bare = called()
    with stepscope.profile(**EVERYTHING):
        recorded = called()
    assert recorded == bare


def test_ranges_are_seen_by_a_profiler_of_torchs_beside_us() -> None:
    x = torch.ones(3)

    def names(prof: Any) -> list[str]:
        return [event.name for event in prof.events() if event.name.startswith("range")]

    with torch.profiler.profile() as alone, stepscope.record_function("range alone"):
        x + 1
    with stepscope.profile() as ours:
        with torch.profiler.profile() as theirs, stepscope.record_function("range beside"):
            x + 1
        with stepscope.record_function("range after"):
            x + 1
    assert names(alone) == ["range alone"]
    assert names(theirs) == ["range beside"]
    assert names(ours) == ["range beside", "range after"]
