"""What torch.profiler's own tools read: its tree of events, and what they make of it."""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._C._profiler import (
    _ExtraFields_Allocation,
    _ExtraFields_PyCall,
    _TensorMetadata,
)
from torch.profiler import _utils, profile, record_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Both

ALL = {"with_stack": True, "record_shapes": True, "profile_memory": True}


def nodes_of(prof: Any) -> list[Any]:
    return list(_utils.traverse_dfs(prof.profiler.kineto_results.experimental_event_tree()))


def operators_in(nodes: list[Any], depth: int = 0) -> Iterator[tuple[int, str]]:
    for node in nodes:
        is_call = "Py" in str(node.tag)
        if not is_call:
            yield depth, node.name
        yield from operators_in(node.children, depth if is_call else depth + 1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))  # type: ignore[no-any-return]


def test_the_tree_of_operators_and_memory(both: Both) -> None:
    def program() -> Any:
        with profile(profile_memory=True) as prof:
            x = torch.ones(1, requires_grad=True)
            with record_function("outer"), record_function("inner"):
                loss = torch.nn.functional.softplus(x + x)
            loss.backward()
        return list(operators_in(prof.profiler.kineto_results.experimental_event_tree()))

    both(program)


def test_tensors_of_operators(both: Both) -> None:
    def described(value: Any) -> Any:
        if not isinstance(value, _TensorMetadata):
            return value
        facts = (value.sizes, value.strides, value.dtype, value.device, value.layout, value.dim)
        return facts, value.id is not None, value.allocation_id is not None

    def program() -> Any:
        with profile(**ALL) as prof:
            a = torch.ones(4, 4)
            a.view(2, 8)
            _ = a + 1
            torch.cat([a])
            x = torch.ones(1)
            x.set_(torch.ones(2).storage())
            x.view(2)
        nodes = nodes_of(prof)
        shown = ("aten::view", "aten::add", "aten::fill_")
        inputs = [[described(i) for i in n.typed[1].inputs] for n in nodes if n.name in shown]
        given = next(n.typed[1].inputs[0] for n in nodes if n.name == "aten::set_")
        seen = [n.typed[1].inputs[0] for n in nodes if n.name == "aten::view"][-1]
        first = next(n.typed[1].inputs[0] for n in nodes if n.name == "aten::view")
        return (
            inputs,
            (given.id == seen.id, given.allocation_id == seen.allocation_id),
            (first.impl_ptr == a._cdata, first.storage_data_ptr == a.storage().data_ptr()),
            [
                (n.extra_fields.alloc_size, str(n.extra_fields.device))
                for n in nodes
                if isinstance(n.extra_fields, _ExtraFields_Allocation)
            ],
        )

    both(program)


def test_modules_and_optimizers(both: Both) -> None:
    model, x = Model(), torch.ones(2, 4)
    optimizer = torch.optim.Adam(model.parameters())

    def program() -> Any:
        with profile(**ALL) as prof:
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        nodes = nodes_of(prof)
        calls = [n for n in nodes if n.name.startswith("nn.Module: ")]
        modules = [
            (n.name, m.cls_name, m.self_ptr, [(k, p.sizes) for k, p, _ in m.parameters])
            for n in calls
            if (m := n.typed[1].module) is not None
        ]
        (step,) = [n for n in nodes if "PyCall" in str(n.tag) and n.typed[1].optimizer is not None]
        parameters = step.typed[1].optimizer.parameters
        states = [(p.sizes, g is not None, sorted(k for k, _ in s)) for p, g, s in parameters]
        weight = calls[1].typed[1].module.parameters[0][1]
        return (
            modules,
            step.name,
            states,
            weight.id is not None,
            calls[1].typed[1].callsite.line_number,
        )

    program()  # what an optimizer makes in its first step is there from then on
    both(program)


def test_the_analysis_of_memory(both: Both) -> None:
    model, x = Model(), torch.ones(2, 4)

    def program() -> Any:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with profile(**ALL) as prof:
            for _ in range(2):
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        analysis = prof._memory_profile()
        return collections.Counter(
            (action.name, str(analysis._categories.get(*key)), size)
            for _, action, key, size in analysis.timeline
        )

    both(program)


def test_patterns(both: Both) -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3))
    x = torch.ones(3, 3, 3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    _pattern_matcher = pytest.importorskip("torch.profiler._pattern_matcher")  # not in 2.15
    kinds = (
        _pattern_matcher.ForLoopIndexingPattern,
        _pattern_matcher.OptimizerSingleTensorPattern,
        _pattern_matcher.SynchronizedDataLoaderPattern,
        _pattern_matcher.GradNotSetToNonePattern,
        _pattern_matcher.Conv2dBiasFollowedByBatchNorm2dPattern,
        _pattern_matcher.ExtraCUDACopyPattern,
        _pattern_matcher.MatMulDimInFP16Pattern,
    )

    def program() -> Any:
        with profile(with_stack=True, record_shapes=True) as prof:
            y = torch.ones(10, 10)
            for i in range(10):
                y[i] = i
            loss = model(x).sum()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
        return [len(kind(prof, False).matched_events()) for kind in kinds]

    program()  # gradients are there from then on
    both(program)


def test_calls_of_all_threads(both: Both) -> None:
    def during_run() -> None:
        torch.ones(1)

    def program() -> Any:
        gates = [threading.Barrier(3) for _ in range(3)]

        def preexisting() -> None:
            gates[0].wait()
            gates[1].wait()
            during_run()
            gates[2].wait()

        threads = [threading.Thread(target=preexisting) for _ in range(2)]
        for thread in threads:
            thread.start()
        gates[0].wait()
        with profile(with_stack=True) as prof:
            gates[1].wait()
            gates[2].wait()
            during_run()
        for thread in threads:
            thread.join()
        calls = [n for n in nodes_of(prof) if isinstance(n.extra_fields, _ExtraFields_PyCall)]
        collected = []
        for name in ("preexisting", "during_run"):
            of_threads = [n.start_tid for n in calls if n.name.endswith(name)]
            collected.append((len(of_threads), len(set(of_threads))))
        return collected

    both(program)
