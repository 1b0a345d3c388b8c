"""Serialises plain values and arrays between our own processes, without pickle.

It supports dataclasses, named tuples, and containers of these. The bytes are a line of JSON, then
one array after the other in NumPy's file format. Reading creates only the classes that the reader
names.
"""

from __future__ import annotations

import io
import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

_ARRAY, _BYTES, _TUPLE, _CLASS = "array", "bytes", "tuple", "class"


class PlainError(ValueError):
    """The bytes are not what ``packed`` returned for one of the classes that were named."""


def packed(value: Any) -> bytes:
    """Serialise numbers, texts, arrays, and classes and containers of these."""
    arrays: list[np.ndarray[Any, Any]] = []
    out = io.BytesIO()
    out.write(json.dumps(_written(value, arrays)).encode() + b"\n")
    for array in arrays:
        np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def unpacked(data: bytes, classes: Iterable[type]) -> Any:
    """Return the value of ``packed``; PlainError for any other bytes."""
    line, _, rest = data.partition(b"\n")
    source = io.BytesIO(rest)
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        while source.tell() < len(rest):
            arrays.append(np.lib.format.read_array(source, allow_pickle=False))
        return _read(json.loads(line), arrays, {kind.__name__: kind for kind in classes})
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, EOFError) as error:
        raise PlainError(f"{type(error).__name__}: {error}") from None


def _written(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray | bytes):
        kind = _BYTES if isinstance(value, bytes) else _ARRAY
        arrays.append(np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value)
        return {kind: len(arrays) - 1}
    if isinstance(value, list):
        return [_written(item, arrays) for item in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # of a NamedTuple
        return _as_class(value, value._fields, arrays)
    if isinstance(value, tuple):
        return {_TUPLE: [_written(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"": [[key, _written(item, arrays)] for key, item in value.items()]}
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no plain value")
    return _as_class(value, [field.name for field in fields(value)], arrays)


def _as_class(value: Any, names: Iterable[str], arrays: list[np.ndarray[Any, Any]]) -> Any:
    pairs = [[name, _written(getattr(value, name), arrays)] for name in names]
    return {_CLASS: type(value).__name__, "": pairs}


def _read(value: Any, arrays: list[np.ndarray[Any, Any]], classes: dict[str, type]) -> Any:
    if isinstance(value, list):
        return [_read(item, arrays, classes) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return arrays[value[_ARRAY]]
    if _BYTES in value:
        return arrays[value[_BYTES]].tobytes()
    if _TUPLE in value:
        return tuple(_read(item, arrays, classes) for item in value[_TUPLE])
    pairs = {key: _read(item, arrays, classes) for key, item in value[""]}
    return classes[value[_CLASS]](**pairs) if _CLASS in value else pairs
