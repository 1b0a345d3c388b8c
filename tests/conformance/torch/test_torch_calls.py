"""Calls of functions, in Python, C and TorchScript, as torch.profiler tells of them."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile, record_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Both

    Exported = Callable[[Any], dict[str, Any]]

ADDRESS = re.compile(r"0x[0-9a-f]+")
PROFILERS = "torch/profiler/profiler.py"


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.rest = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x)).sin()  # type: ignore[no-any-return]


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cos() + 1


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.last = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(x))  # type: ignore[no-any-return]


def numbers() -> Iterator[int]:
    yield 1
    yield len([2, 3])


def calls_of_all_kinds() -> None:
    x = torch.ones(2, 2)
    with record_function("range"):
        torch.add(x, 1)
        sorted(numbers(), key=lambda value: -value)
    with record_function("outer"), record_function("inner"):
        Model()(x).sum().backward()


def shown(nodes: list[Any], depth: int = 0) -> Iterator[str]:
    for node in nodes:
        name = ADDRESS.sub("", node.name)
        yield f"{'  ' * depth}{name} {str(node.tag).rpartition('.')[2]}"
        yield from shown(node.children, depth + 1)


def named(nodes: list[Any], name: str) -> list[Any]:
    values = [node for node in nodes if node.name.endswith(name)]
    return values or [item for node in nodes for item in named(node.children, name)]


def test_the_tree_of_all_calls(both: Both) -> None:
    def program() -> Any:
        gc.collect()
        gc.disable()  # what it calls is none of the program's
        try:
            with profile(with_stack=True, profile_memory=True) as prof:
                calls_of_all_kinds()
        finally:
            gc.enable()
        roots = prof.profiler.kineto_results.experimental_event_tree()
        own = [end for end in ("__enter__", "__exit__") for _ in named(roots, f": {end}")[:1]]
        (exited,) = [n for n in named(roots, ": __exit__") if n.name.startswith(PROFILERS)]
        around = [exited.name, exited.children[0].name, exited.children[0].children[-1].name]
        return list(shown(named(roots, ": calls_of_all_kinds"))), own, around

    calls_of_all_kinds()  # what is imported or cached meanwhile is there from then on
    tree, _, _ = both(program)
    assert any("<built-in method add" in line for line in tree)


def test_frames_and_modules_of_scripts(both: Both, exported: Exported) -> None:
    script, traced = torch.jit.script(Scripted()), torch.jit.trace(Scripted(), torch.ones(2, 2))

    def program() -> Any:
        x = torch.ones(2, 2)
        with profile(with_stack=True, with_modules=True) as prof:
            script(x)
            traced(x)
            x.neg()
        written = [e for e in exported(prof)["traceEvents"] if e.get("cat") == "cpu_op"]
        modules = [(e["name"], e["args"].get("Module Hierarchy")) for e in written]
        events: Any = prof.events()
        in_script = [(e.name, e.stack) for e in events if __file__ in str(e.stack)]
        return modules, in_script

    for _ in range(3):  # TorchScript optimizes what runs again
        script(torch.ones(2, 2))
        traced(torch.ones(2, 2))
    modules, in_script = both(program)
    assert any(hierarchy for _, hierarchy in modules)
    assert in_script


def test_what_kineto_tells_of_events(both: Both) -> None:
    def program() -> Any:
        with profile(profile_memory=True, record_shapes=True) as prof:
            x = torch.ones(2)
            torch.add(x, 3)
            del x
        collected = []
        for event in prof.profiler.kineto_results.events():
            facts = (event.name(), event.overload_name(), event.metadata_json(), event.nbytes())
            where = (event.device_resource_id(), event.is_hidden_event(), event.kwinputs())
            collected.append((facts, where))
        return collected

    both(program)

    def asked() -> Any:
        config = _ExperimentalConfig(capture_overload_names=True, expose_kineto_event_metadata=True)
        with profile(record_shapes=True, experimental_config=config) as prof:
            torch.add(torch.ones(2), 3)
        events = prof.profiler.kineto_results.events()
        return [(e.name(), e.overload_name(), e.metadata_json()) for e in events]

    both(asked)


def test_dynamo_counts_the_programs_frames_only(both: Both) -> None:
    def program() -> Any:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = torch.compile(Inner(), backend="eager")
        model(torch.ones(2, 2))
        with profile(with_stack=True, profile_memory=True):
            model(torch.ones(2, 2))  # whose frames Dynamo looks at, compiled or not
        return {key: dict(result) for key, result in torch._dynamo.utils.counters.items()}

    both(program)
