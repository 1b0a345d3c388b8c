"""What is known of the inputs of operators, and what a sequence number says of autograd."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepscope.analysis.calls.operator_inputs import operator_inputs
from stepscope.record.options import RecordOptions
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.trace.build import empty_trace

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

torch = pytest.importorskip("torch")


def recorded(run: Any, **options: bool) -> Trace:
    session = Session(make_sources(RecordOptions(**options)))
    session.start()
    run()
    session.stop()
    assert session.trace is not None
    return session.trace


def products() -> None:
    narrow, wide = torch.ones(4, 8, dtype=torch.float64), torch.ones(8, 16, dtype=torch.float64)
    for _ in range(5_000):
        torch.mm(narrow, wide)


@pytest.mark.parametrize("option", ["shapes", "sampled_inputs"])
def test_type_of_the_first_tensor_and_size_of_the_largest(option: str) -> None:
    trace = recorded(products, **{option: True})
    inputs = operator_inputs(trace)
    of_mm = np.flatnonzero([trace.name_of(row) == "aten::mm" for row in inputs.rows])
    assert len(of_mm) == 5_000 if option == "shapes" else 0 < len(of_mm) < 500
    assert set(inputs.elements[of_mm].tolist()) == {128}
    assert {inputs.types[i] for i in inputs.type[of_mm]} == {"double"}
    assert inputs.is_sample == (option == "sampled_inputs")


def test_there_may_be_nothing_to_know() -> None:
    assert not len(operator_inputs(empty_trace()))
    assert not len(operator_inputs(recorded(products)))


# ---- whether autograd builds a graph


def sequences(model: Any, around: Any) -> list[int]:
    """Return the sequence numbers of the operators that the program calls itself."""

    def run() -> None:
        with around:
            model(torch.ones(2, 4)).relu().sum()

    trace = recorded(run)
    slices = trace.slices
    names = np.array(list(trace.names()))
    wanted = np.isin(names, ["aten::linear", "aten::relu", "aten::sum"]) & (slices.parent < 0)
    return slices.sequence[wanted].tolist()


def test_sequence_numbers_rise_where_a_graph_is_built() -> None:
    by_sequence = sequences(torch.nn.Linear(4, 4), contextlib.nullcontext())
    assert by_sequence == sorted(set(by_sequence))
    assert min(by_sequence) >= 0


def test_they_stay_where_nothing_requires_gradients() -> None:
    frozen = torch.nn.Linear(4, 4).requires_grad_(False)
    by_sequence = sequences(frozen, contextlib.nullcontext())
    assert len(by_sequence) == 3
    assert len(set(by_sequence)) == 1
    assert min(by_sequence) >= 0


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_there_are_none_where_gradients_are_off(around: Any) -> None:
    assert sequences(torch.nn.Linear(4, 4), around()) == [-1, -1, -1]
