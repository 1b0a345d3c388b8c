"""``remember`` answers from memory only if nothing that the function reads has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepscope.remember import Inputs, UnknownInputError, remember, totals

FACTORS = [3]


class Table:
    """A table whose sums are asked for often."""

    def __init__(self) -> None:
        self.rows = np.arange(10_000.0)
        self.scale = 2.0
        self.unrelated = 0

    @property
    @remember
    def total(self) -> float:
        return float(self.rows.sum())

    @remember
    def scaled_total(self) -> float:
        return self.total * self.factor()

    def factor(self) -> float:
        return self.scale


class NegativeTable(Table):
    def factor(self) -> float:
        return -self.scale


class Opaque:
    """An object without contents to compare."""

    __slots__ = ()


def squares(values: Any) -> Any:
    return values * values


def scaled(value: int) -> int:
    return value * FACTORS[0]


def scaled_twice(value: int) -> int:
    return scaled(scaled(value))


def type_name(value: Any) -> str:
    return type(value).__name__


def power(base: int, exponent: int = 2, root: int = 1) -> int:
    return int(base ** (exponent / root))


@pytest.fixture(autouse=True)
def _factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTORS", [3])


def hits(function: Any, *arguments: Any) -> int:
    """Return how many calls were answered from memory during one call."""
    before = totals()["hits"]
    function(*arguments)
    return totals()["hits"] - before


def test_an_equal_array_is_the_same_input() -> None:
    square = remember(squares)
    assert hits(square, np.arange(3000.0)) == 0
    assert hits(square, np.arange(3000.0)) == 1
    assert hits(square, np.arange(3000.0, dtype=np.float32)) == 0


def test_an_array_that_was_changed_in_place_is_another_input() -> None:
    square, values = remember(squares), np.arange(3000.0)
    square(values)
    values[7] = -5.0
    assert square(values)[7] == 25.0


def test_a_result_that_its_user_changes_stays_as_it_was_in_memory() -> None:
    square = remember(squares)
    for number in range(3):
        result = square(np.ones(4))
        assert result.tolist() == [1.0] * 4
        result[:] = number + 5


def test_what_a_method_reads_of_self_is_its_input() -> None:
    table = Table()
    assert table.total == table.total == 49_995_000.0
    table.rows[0] = 100.0
    assert table.total == 49_995_100.0
    table.unrelated += 1
    assert hits(lambda: table.total) == 1


def test_what_methods_that_are_called_read_is_an_input() -> None:
    table = Table()
    assert table.scaled_total() == 99_990_000.0
    table.scale = 3.0
    assert table.scaled_total() == 149_985_000.0


def test_objects_of_two_classes_are_two_inputs() -> None:
    assert Table().scaled_total() == -NegativeTable().scaled_total()


def test_an_input_without_contents_is_called_each_time() -> None:
    name = remember(type_name)
    with pytest.raises(UnknownInputError):
        Inputs(type_name).key((Opaque(),), {})
    assert [hits(name, Opaque()), hits(name, Opaque())] == [0, 0]


@pytest.mark.parametrize(("function", "before", "after"), [(scaled, 6, 10), (scaled_twice, 18, 50)])
def test_a_global_value_is_an_input(function: Any, before: int, after: int) -> None:
    remembered = remember(function)
    assert remembered(2) == before
    FACTORS[0] = 5
    assert remembered(2) == after


def test_equal_values_of_two_types_are_two_inputs() -> None:
    name = remember(type_name)
    assert [name(1), name(True), name(1.0)] == ["int", "bool", "float"]


def test_keywords_are_inputs() -> None:
    remembered = remember(power)
    assert remembered(4, exponent=1) == 4
    assert remembered(4, root=1) == 16
    assert remembered(4, 1) == 4


def test_a_tensor_counts_by_its_contents() -> None:
    torch = pytest.importorskip("torch")
    square, values = remember(squares), torch.arange(3000.0)
    square(values)
    assert hits(square, values.clone()) == 1
    values.data[7] = -5.0  # no version counts this
    assert square(values)[7] == 25.0
    assert hits(square, torch.ones(4, requires_grad=True)) == 0
    assert hits(square, torch.ones(4, requires_grad=True)) == 0
