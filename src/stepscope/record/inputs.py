"""Decodes the inputs of operators from the bridge's encoding (see core_api.h) to trace args."""

from __future__ import annotations

import ast
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.record.collectives import COLLECTIVE_FIELDS
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import (
    CALL_STACK,
    CONCRETE_INPUTS,
    EVENT_INDEX,
    EXTERNAL_ID,
    INPUT_DIMS,
    INPUT_STRIDES,
    INPUT_TYPES,
    MODULE_HIERARCHY,
    RECORD_FUNCTION_ID,
    SAMPLED_DIMS,
    SAMPLED_TYPES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.trace.model import Args, UInt32
    from stepscope.trace.strings import Strings

(
    _OTHER,
    _TENSOR,
    _TENSOR_LIST,
    _INT,
    _DOUBLE,
    _BOOL,
    _INT_LIST,
    _DOUBLE_LIST,
    _BOOL_LIST,
    _SIZED,
    _KEYWORD,
    _TEXT,
    _TEXT_LIST,
) = range(13)

_Value = tuple[object, object, str, str]  # dims, strides, type, concrete value
_NOTHING: _Value = ([], [], "", "")

_KEYS = (CONCRETE_INPUTS, INPUT_TYPES, INPUT_STRIDES, INPUT_DIMS)
# Arguments of a slice that the program did not give by keyword.
_NO_KEYWORDS = COLLECTIVE_FIELDS.union(
    *(_KEYS, (EXTERNAL_ID, CALL_STACK, MODULE_HIERARCHY, "args", RECORD_FUNCTION_ID)),
    (EVENT_INDEX, "correlation"),
)


def keywords_of(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword inputs among the arguments of a slice."""
    if INPUT_TYPES not in args:
        return {}
    return {key: value for key, value in args.items() if key not in _NO_KEYWORDS}


def with_inputs(
    strings: Strings, args: Args, inputs: UInt32, spelled: Mapping[int, str]
) -> tuple[Strings, Args]:
    """Add the inputs to the args of their slices; ``spelled`` is from ``spelled_inputs``."""
    import numpy as np

    from stepscope.trace.strings import Strings

    texts = list(strings)
    id_of = np.zeros(int(inputs.max(initial=0)) + 1, np.uint32)
    for number, text in spelled.items():
        id_of[number] = len(texts)
        texts.append(text)
    rest = args.rest.copy() if len(args.rest) else np.zeros(len(inputs), np.uint32)
    rows = np.flatnonzero(inputs)
    rest[rows] = id_of[inputs[rows]]
    return Strings.of(texts), replace(args, rest=rest)


def spelled_inputs(
    inputs: UInt32, encoded: Sequence[bytes], type_names: Sequence[str], *, are_sampled: bool
) -> dict[int, str]:
    """Return what the trace keeps of all inputs that are used, by their number."""
    import numpy as np

    spell = sampled_fragment if are_sampled else fragment
    used = np.unique(inputs[inputs != 0]).tolist()
    return {number: spell(encoded[number], type_names) for number in used}


def fragment(encoded: bytes, type_names: Sequence[str]) -> str:
    """Return the inputs of one call under the keys of torch's traces."""
    decoder = _Decoder(encoded, type_names)
    values = list(decoder)
    columns = {
        CONCRETE_INPUTS: [concrete for _, _, _, concrete in values],
        INPUT_TYPES: [kind for _, _, kind, _ in values],
        INPUT_STRIDES: [strides for _, strides, _, _ in values],
        INPUT_DIMS: [dims for dims, _, _, _ in values],
    }
    return fragment_of(decoder.keywords | columns)


def sampled_fragment(encoded: bytes, type_names: Sequence[str]) -> str:
    """Return what is kept of the inputs of one operator in many.

    Under keys of their own: who adds up what has shapes must not take these few for all.
    """
    values = list(_Decoder(encoded, type_names))
    columns = {
        SAMPLED_TYPES: [kind for _, _, kind, _ in values],
        SAMPLED_DIMS: [dims for dims, _, _, _ in values],
    }
    return fragment_of(columns)


class _Decoder:
    """Reads values one after another."""

    def __init__(self, encoded: bytes, type_names: Sequence[str]) -> None:
        self._bytes = encoded
        self._type_names = type_names
        self._at = 0
        self.keywords: dict[str, object] = {}  # those met so far

    def __iter__(self) -> _Decoder:
        return self

    def __next__(self) -> _Value:
        if self._at == len(self._bytes):
            raise StopIteration
        mark = self._take("B")[0]
        if mark == _KEYWORD:
            name = self._text()
            self._keep_keyword(name)
            return next(self)
        if mark in (_TENSOR, _SIZED):
            return self._tensor(with_strides=mark == _TENSOR)
        if mark == _TENSOR_LIST:
            tensors = [next(self) for _ in range(self._take("I")[0])]
            dims, strides = [t[0] for t in tensors], [t[1] for t in tensors]
            return dims, strides, "TensorList", ""
        if mark in _SCALARS:
            code, spelled = _SCALARS[mark]
            return [], [], "Scalar", spelled(self._take(code)[0])
        if mark in _LISTS:
            code, spelled = _SCALARS[_LISTS[mark]]
            values = self._take(code * self._take("I")[0])
            return [], [], "ScalarList", f"[{', '.join(map(spelled, values))}]"
        return _NOTHING

    def _text(self) -> str:
        (size,) = self._take("I")
        text = self._bytes[self._at : self._at + size].decode("utf-8", "replace")
        self._at += size
        return text

    def _marked_text(self) -> str:
        self._at += 1
        return self._text()

    def _keep_keyword(self, name: str) -> None:
        """Read a keyword input; tensors and other values without a spelling are left out."""
        mark = self._bytes[self._at]
        if mark == _TEXT:
            self.keywords[name] = self._marked_text()
            return
        if mark == _TEXT_LIST:
            self._at += 1
            self.keywords[name] = [self._marked_text() for _ in range(self._take("I")[0])]
            return
        _, _, kind, spelled = next(self)
        if kind in ("Scalar", "ScalarList"):
            self.keywords[name] = _json_value(spelled)

    def _tensor(self, *, with_strides: bool) -> _Value:
        kind, rank = self._take("BB")
        dims = list(self._take("q" * rank))
        strides = list(self._take("q" * rank)) if with_strides else []
        is_known = kind < len(self._type_names)
        return dims, strides, self._type_names[kind] if is_known else "", ""

    def _take(self, codes: str) -> tuple[Any, ...]:
        layout = struct.Struct("<" + codes)
        values = layout.unpack_from(self._bytes, self._at)
        self._at += layout.size
        return values


def _json_value(spelled: str) -> object:
    """Return the value of a spelled scalar or list; what JSON lacks stays a text."""
    try:
        return ast.literal_eval(spelled)
    except (ValueError, SyntaxError):
        return spelled


def _double_text(value: float) -> str:
    """Return a number as torch spells it: ``1.``, ``0.10000000000000001``, ``inf``."""
    text = f"{value:.17g}"
    return f"{text}." if text.lstrip("-").isdigit() else text


def scalar_text(value: object) -> str:
    """Return a number as torch spells it; empty for anything else."""
    if isinstance(value, float):
        return _double_text(value)
    return str(value) if isinstance(value, int) else ""


_SCALARS: dict[int, tuple[str, Callable[[Any], str]]] = {
    _INT: ("q", str),
    _DOUBLE: ("d", _double_text),
    _BOOL: ("?", str),
}
_LISTS = {_INT_LIST: _INT, _DOUBLE_LIST: _DOUBLE, _BOOL_LIST: _BOOL}
