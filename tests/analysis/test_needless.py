"""Which work was needless follows from what operators read and make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import trace_of
from stepscope.analysis.needless.alone import calls_alone, prefix_calls
from stepscope.analysis.needless.extended import extended
from stepscope.analysis.needless.hardly_read import read_shares
from stepscope.analysis.needless.repeated import repeated
from stepscope.analysis.needless.uses import ValueUses, value_uses
from stepscope.record.options import RecordOptions, StackMode
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.trace.kinds import UseRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Bool, Trace

torch = pytest.importorskip("torch")


def used(work: Callable[[], Any]) -> tuple[Trace, ValueUses]:
    """Record what operators do with data; what the work returns is alive until the end."""
    options = RecordOptions(needless=True, stacks=StackMode.OPERATORS, model_calls=True)
    session = Session(make_sources(options))
    session.start()
    alive = work()
    session.stop()
    trace = trace_of(session)
    del alive
    return trace, value_uses(trace)


def names(trace: Trace, uses: ValueUses, which: Bool) -> list[str]:
    return [trace.name_of(int(row)) for row in uses.rows[which]]


def needless_names(work: Callable[[], Any]) -> list[str]:
    trace, uses = used(work)
    return names(trace, uses, repeated(uses).needless)


class TestComputedAgain:
    def test_of_equal_inputs_for_something_new(self) -> None:
        matrix, vectors = torch.rand(8, 8), torch.rand(3, 8)

        def work() -> list[Any]:
            return [(matrix @ matrix) @ vector for vector in vectors]

        assert needless_names(work) == ["aten::mm", "aten::mm"]

    def test_not_of_inputs_that_were_changed(self) -> None:
        matrix, vectors = torch.rand(8, 8), torch.rand(3, 8)

        def work() -> list[Any]:
            return [(matrix.add_(1) @ matrix) @ vector for vector in vectors]

        assert needless_names(work) == []

    def test_not_of_a_part_that_was_changed_through_a_view(self) -> None:
        matrix, vectors = torch.rand(64, 64), torch.rand(3, 64)

        def work() -> list[Any]:
            results = []
            for row, vector in enumerate(vectors):
                matrix[row, 0] = 2.0
                results.append((matrix @ matrix) @ vector)
            return results

        assert "aten::mm" not in needless_names(work)

    def test_not_of_random_numbers(self) -> None:
        x, weight = torch.ones(64, 64), torch.rand(64, 64)

        def work() -> list[Any]:
            torch.nn.functional.dropout(x, 0.5)
            return [
                torch.nn.functional.dropout(x, 0.5) @ weight * torch.rand(64, 64) for _ in range(3)
            ]

        assert needless_names(work) == []

    def test_not_of_storages_that_took_the_place_of_others(self) -> None:
        weight = torch.rand(64, 64)

        def work() -> float:
            # Each input takes the memory of the last one.
            return sum(float((torch.rand(64, 64) @ weight).sum()) for _ in range(20))

        assert needless_names(work) == []

    def test_not_of_what_numpy_writes_into(self) -> None:
        array = np.zeros((64, 64), np.float32)
        shared, weight, new = torch.from_numpy(array), torch.rand(64, 64), torch.rand(3, 64)

        def work() -> list[Any]:
            results = []
            for number, vector in enumerate(new):
                array[:] = number
                results.append((shared @ weight) @ vector)
            return results

        assert needless_names(work) == []

    def test_not_of_a_tensor_that_numpy_got_hold_of(self) -> None:
        shared, weight, new = torch.zeros(64, 64), torch.rand(64, 64), torch.rand(3, 64)

        def work() -> list[Any]:
            results = []
            for number, vector in enumerate(new):
                shared.numpy()[:] = number
                results.append((shared @ weight) @ vector)
            return results

        assert needless_names(work) == []

    def test_not_of_results_that_are_filled_anew(self) -> None:
        new = torch.rand(3, 64)

        def work() -> list[Any]:
            return [torch.zeros(64).add_(vector) for vector in new]

        assert needless_names(work) == []

    def test_of_small_tensors_from_lists(self) -> None:
        table, new = torch.rand(64, 2), torch.rand(3, 64)

        def work() -> list[Any]:
            return [(table @ torch.tensor([[1.0], [2.0]])).view(64) * vector for vector in new]

        assert needless_names(work) == ["aten::mm", "aten::mm"]

    def test_of_one_batch_again_and_again_is_something_else(self) -> None:
        x, weight = torch.rand(64, 64), torch.rand(64, 64)

        def work() -> None:
            for _ in range(3):
                x @ weight

        _, uses = used(work)
        again = repeated(uses)
        assert not again.needless.any()
        assert again.idle.sum() == 2


class TestHardlyRead:
    def test_a_head_of_which_one_position_is_read(self) -> None:
        hidden, weight = torch.rand(64, 128), torch.rand(128, 256)

        def work() -> float:
            return float((hidden @ weight)[-1].softmax(0).sum())

        trace, uses = used(work)
        shares = read_shares(trace, uses)
        assert names(trace, uses, shares < 0.02) == ["aten::mm"]

    def test_not_a_result_that_is_still_there(self) -> None:
        hidden, weight = torch.rand(64, 128), torch.rand(128, 256)

        def work() -> tuple[Any, Any]:
            logits = hidden @ weight
            return logits, logits[-1].sum()

        assert (read_shares(*used(work)) == 1).all()

    def test_not_a_result_that_numpy_reads(self) -> None:
        hidden, weight = torch.rand(64, 128), torch.rand(128, 256)

        def work() -> float:
            logits = hidden @ weight
            return float(logits[-1].sum()) + float(logits.numpy().sum())

        trace, uses = used(work)
        assert "aten::mm" not in names(trace, uses, read_shares(trace, uses) < 1)

    def test_not_a_result_that_the_backward_pass_reads(self) -> None:
        weight = torch.rand(128, 256, requires_grad=True)
        hidden = torch.rand(64, 128)

        def work() -> None:
            ((hidden @ weight).exp()[-1].sum()).backward()

        trace, uses = used(work)
        assert "aten::exp" not in names(trace, uses, read_shares(trace, uses) < 1)


class TestCopiedToExtend:
    def test_a_join_of_the_former_result(self) -> None:
        def work() -> Any:
            keys = torch.rand(100, 16)
            for _ in range(5):
                keys = torch.cat([keys, torch.rand(1, 16)])
            return keys

        joins = extended(*used(work))
        assert joins.which.sum() == 4
        assert joins.new_bytes == 4 * 16 * 4

    def test_not_a_join_with_the_same_prefix_each_time(self) -> None:
        prefix = torch.rand(100, 16)

        def work() -> list[Any]:
            return [torch.cat([prefix, torch.rand(1, 16)]) for _ in range(5)]

        assert not extended(*used(work)).which.any()


class TestOneAtATime:
    def model(self) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh())

    def test_results_that_are_put_together(self) -> None:
        model, rows = self.model(), torch.rand(6, 1, 16).unbind(0)
        inputs = [row.clone() for row in rows]

        def work() -> Any:
            return torch.cat([model(row) for row in inputs])

        assert calls_alone(*used(work)).joined == 6

    def test_not_calls_with_many_rows(self) -> None:
        model, batches = self.model(), [torch.rand(32, 16) for _ in range(6)]
        assert not calls_alone(*used(lambda: torch.cat([model(b) for b in batches]))).joined

    def test_not_calls_that_need_the_last_ones_result(self) -> None:
        model = self.model()

        def work() -> Any:
            states = [torch.rand(1, 16)]
            for _ in range(6):
                states.append(model(states[-1]))
            return torch.cat(states[1:])

        assert not calls_alone(*used(work)).joined

    def test_not_calls_between_which_a_result_is_read(self) -> None:
        model = self.model()

        def work() -> Any:
            results, number = [], 0.0
            for _ in range(6):
                results.append(model(torch.full((1, 16), number)))
                number = results[-1].sum().item()
            return torch.cat(results)

        assert not calls_alone(*used(work)).joined

    def test_not_calls_between_which_numpy_reads_a_result(self) -> None:
        model = self.model().requires_grad_(False)

        def work() -> Any:
            results, number = [], 0.0
            for _ in range(6):
                results.append(model(torch.full((1, 16), number)))
                number = float(results[-1].numpy().sum())
            return torch.cat(results)

        assert not calls_alone(*used(work)).joined


class TestWholePrefix:
    def test_an_input_that_grows_by_a_join(self) -> None:
        model = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50))

        def work() -> Any:
            ids = torch.zeros(1, 20, dtype=torch.long)
            for _ in range(5):
                following = model(ids)[:, -1].argmax(-1, keepdim=True)
                ids = torch.cat([ids, following], 1)
            return ids

        trace, uses = used(work)
        which = prefix_calls(trace, uses, extended(trace, uses).which)
        assert "aten::addmm" in names(trace, uses, which)

    def test_not_a_cache_that_grows(self) -> None:
        model, weight = torch.nn.Linear(8, 8), torch.rand(8, 8)

        def work() -> Any:
            keys = torch.rand(20, 8)
            for _ in range(5):
                new = model(torch.rand(1, 8))
                keys = torch.cat([keys, new])
                (new @ weight) @ keys.t()
            return keys

        trace, uses = used(work)
        assert not prefix_calls(trace, uses, extended(trace, uses).which).any()


def test_storages_are_released_once() -> None:
    trace, _ = used(lambda: [torch.rand(4).exp() for _ in range(3)])
    released = trace.uses.storage[trace.uses.role == UseRole.RELEASED]
    assert len(np.unique(released)) == len(released)
