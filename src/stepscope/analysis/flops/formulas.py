"""The registry of formulas: how many floating-point operations a call of an operator takes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.analysis.flops.inputs import Formula

# Each entry imports and returns the formulas of one framework, by the operator's name.
FORMULAS: Registry[Callable[[], Mapping[str, Formula]]] = Registry()


def formula_of(name: str) -> Formula | None:
    """Return how to count an operator; ``aten::add_`` counts as ``aten::add`` does."""
    formulas = _formulas_of(tuple(FORMULAS))
    return formulas.get(name) or formulas.get(name.removesuffix("_"))


@cache
def _formulas_of(entries: tuple[Callable[[], Mapping[str, Formula]], ...]) -> dict[str, Formula]:
    return {name: formula for entry in entries for name, formula in entry().items()}
