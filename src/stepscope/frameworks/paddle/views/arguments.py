"""Converts the inputs of a slice to Paddle's form: shapes and types by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscope.trace.keys import INPUT_DIMS, INPUT_NAMES, INPUT_TYPES


def input_lists(pairs: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """Return shapes and dtypes by the inputs' names, as Paddle has them.

    Unnamed inputs are called by their position. Only tensors and lists of tensors have shapes.
    """
    shapes, dtypes = pairs.get(INPUT_DIMS), pairs.get(INPUT_TYPES)
    names = pairs.get(INPUT_NAMES)
    by_shape = _by_name(shapes, names)
    by_dtype = _by_name(dtypes, pairs.get("Input type names", names))
    return (
        {name: [s for s in shapes if _is_shape(s)] for name, shapes in by_shape.items()},
        {name: [str(d) for d in types] for name, types in by_dtype.items()},
    )


def _by_name(items: Any, names: Any) -> dict[str, list[Any]]:
    if not isinstance(items, list):
        return {}
    if not isinstance(names, list) or len(names) != len(items):
        names = [str(i) for i in range(len(items))]
    by_name: dict[str, list[Any]] = {}
    for name, item in zip(names, items, strict=True):
        by_name.setdefault(str(name), []).append(item)
    return by_name


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int for size in value)
