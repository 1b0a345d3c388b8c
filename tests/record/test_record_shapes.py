"""record_shapes: the inputs of every operator, as torch.profiler itself writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

from stepscope import profile
from stepscope.record.inputs import fragment
from torch_steps import MODELS, training_step

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def inputs_of(trace: Trace) -> list[tuple[str, dict[str, Any]]]:
    rows = range(len(trace))
    args = [trace.slices.args.of_row(row, trace.strings) for row in rows]
    return [(trace.name_of(row), {k: args[row][k] for k in KEYS if k in args[row]}) for row in rows]


def torchs_inputs(path: Path) -> list[tuple[str, dict[str, Any]]]:
    events = json.loads(path.read_text())["traceEvents"]
    operators = [e for e in events if e.get("cat") == "cpu_op"]
    operators.sort(key=lambda e: (e["ts"], -e["dur"]))
    return [(e["name"], {k: e["args"][k] for k in KEYS if k in e["args"]}) for e in operators]


@pytest.mark.parametrize("name", MODELS)
def test_inputs_are_those_that_torch_writes_for_the_same_run(name: str, tmp_path: Path) -> None:
    step = training_step(name)
    theirs = torch.profiler.profile(record_shapes=True)
    with theirs, profile(record_shapes=True) as ours:
        step()
    theirs.export_chrome_trace(str(tmp_path / "torch.json"))
    expected = torchs_inputs(tmp_path / "torch.json")
    values = [pair for pair in inputs_of(ours.trace) if pair[1]]
    expected = [pair for pair in expected if pair[1]]
    assert sorted(map(repr, values)) == sorted(map(repr, expected))
    assert len(values) > 20


def test_a_repeated_signature_is_kept_once() -> None:
    a = torch.ones(3, 4)
    with profile(record_shapes=True) as prof:
        for _ in range(100):
            torch.mul(a, a)
    slices = prof.trace.slices
    assert len(slices) == 100
    assert len(set(slices.args.rest.tolist())) == 1


def test_without_record_shapes_no_inputs_are_kept() -> None:
    with profile() as prof:
        torch.ones(3) + 1
    assert not prof.trace.slices.args.rest.any()


def test_two_profilers_with_different_wishes_record_at_once() -> None:
    with profile() as outer:
        torch.ones(1)
        with profile(record_shapes=True) as inner:
            torch.ones(2)
        torch.ones(3)
    assert all(args for _, args in inputs_of(inner.trace))
    first, *_, last = inputs_of(outer.trace)
    assert first[1] == last[1] == {}


def test_every_kind_of_input_is_spelled_as_torch_does(tmp_path: Path) -> None:
    x = torch.randn(2, 3)
    index = torch.tensor([0])
    theirs = torch.profiler.profile(record_shapes=True)
    with theirs, profile(record_shapes=True) as ours:
        torch.cat([x] * 3)
        x.sum((0, 1)).add(2.5).mul(True)
        x.to(torch.bfloat16).view(6)
        torch.full((3,), float("inf"))
        torch.full((3,), -1e-5)
        torch.nn.functional.interpolate(x[None, None], scale_factor=2.0)
        torch.einsum("ij,jk->ik", x, x.t())
        x.index_put_((index,), torch.tensor(1.0))
        torch.complex(x, x).abs()
        x.to_sparse().coalesce()
    theirs.export_chrome_trace(str(tmp_path / "torch.json"))
    expected = [pair for pair in torchs_inputs(tmp_path / "torch.json") if pair[1]]
    values = [pair for pair in inputs_of(ours.trace) if pair[1]]
    assert sorted(map(repr, values)) == sorted(map(repr, expected))


def test_an_operator_without_inputs_has_no_args() -> None:
    assert fragment(b"", []) == (
        '"Concrete Inputs": [], "Input type": [], "Input Strides": [], "Input Dims": []'
    )
