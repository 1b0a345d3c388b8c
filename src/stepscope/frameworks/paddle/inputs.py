"""Records the inputs of Paddle's eager operators: shapes, types and plain values.

The functions of ``paddle._C_ops`` note their arguments; afterwards a noted call is matched with the
operator that started within it on its thread. This misses operators that do not pass through that
module: Python's own operators (``x + y``), the backward pass, static graphs, and functions that a
program has imported from it by name.
"""

from __future__ import annotations

import functools
import struct
import sys
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope._native import CallNotes, now_ns
from stepscope.record.patching import Patches
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_NAMES, INPUT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    _Place = tuple[ModuleType, str, Callable[..., Any]]

_NOT_OPERATORS = ("run_program", "get_", "set_", "__")
_NATIVE_MODULES = (
    "paddle.base.libpaddle",
    "paddle._pir_ops",
)  # keep the plain functions


class NotedInputs(NamedTuple):
    """Calls of operators, as plain data."""

    calls: bytes = b""  # four int64 per call: thread, start, end, number of the signature
    operators: Sequence[str] = ()  # by signature number
    inputs: Sequence[Mapping[str, Any]] = ()


class OpInputs:
    """Notes the arguments of operator calls, for all recordings that want them."""

    def __init__(self, paddle: Any) -> None:
        self._module: ModuleType = paddle._C_ops
        self._notes = CallNotes(paddle.Tensor)
        self._operators: list[str] = []  # names by operator number
        self._wrapped: dict[int, Callable[..., Any]] = {}  # by id of the plain function
        self._places: list[_Place] = []
        self.patches = Patches(self._patch)

    def prepare(self) -> None:
        self._places = list(_places(self._module)) or self._places  # none while all are replaced

    def noted(self) -> NotedInputs:
        calls, signatures = self._notes.noted()
        spelled = [_Decoder(signature) for signature in signatures]
        operators = [self._operators[signature.operator] for signature in spelled]
        return NotedInputs(calls.tobytes(), operators, [signature.pairs() for signature in spelled])

    def _patch(self, patches: Patches) -> None:
        self._notes.clear()
        if not self._places:
            self.prepare()
        for module, name, plain in self._places:
            if vars(module).get(name) is not plain:
                continue  # other code has replaced it
            if id(plain) not in self._wrapped:
                self._wrapped[id(plain)] = self._noting(plain)
            patches.replace(module, name, self._wrapped[id(plain)])

    def _noting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        operator, signature_of, note = len(self._operators), self._notes.signature, self._notes.note
        self._operators.append(plain.__name__)

        @functools.wraps(plain)  # to_static checks that the function is Paddle's
        def noted(*args: Any, **kwargs: Any) -> Any:
            signature = signature_of(operator, args, kwargs)  # the call may change its arguments
            start_ns = now_ns()
            result = plain(*args, **kwargs)
            note(start_ns, signature)
            return result

        return noted


def _places(operators: ModuleType) -> Iterator[_Place]:
    """Yield each function with every module of Paddle that holds it."""
    plain = {
        id(function)
        for name, function in vars(operators).items()
        if isinstance(function, BuiltinFunctionType) and not name.startswith(_NOT_OPERATORS)
    }
    for path, module in list(sys.modules.items()):
        if not path.startswith("paddle") or path.startswith(_NATIVE_MODULES):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in plain:
                yield module, name, value


@functools.cache
def _type_names() -> dict[int, str]:
    types = sys.modules["paddle"].dtype.__members__.values()
    return {kind.value: str(kind).removeprefix("paddle.") for kind in types}


_Value = tuple[list[Any], str, str]  # dims, type, text of a scalar


class _Decoder:
    """Decodes a signature, see native/python/call_notes.cpp."""

    def __init__(self, encoded: bytes) -> None:
        self._bytes = encoded
        self._at = 0
        self.operator: int = self._take("I")[0]

    def pairs(self) -> dict[str, list[Any]]:
        """Return the arguments under the keys of torch's traces; only keyword ones have names."""
        names, values = [], []
        while self._at < len(self._bytes):
            mark = self._mark()
            names.append(self._text() if mark == b"n" else "")
            values.append(self._value(self._mark() if mark == b"n" else mark))
        columns: dict[str, list[Any]] = {
            CONCRETE_INPUTS: [concrete for _, _, concrete in values],
            INPUT_TYPES: [kind for _, kind, _ in values],
            INPUT_DIMS: [dims for dims, _, _ in values],
        }
        if any(names):
            columns[INPUT_NAMES] = names
        return columns

    def _value(self, mark: bytes) -> _Value:
        if mark == b"t":
            kind, rank = self._take("qI")
            return list(self._take("q" * rank)), _type_names().get(kind, f"type {kind}"), ""
        if mark == b"l":
            return self._list()
        if mark == b"s":
            return [], "Scalar", self._text()
        if mark in _SCALARS:
            return [], "Scalar", str(self._take(_SCALARS[mark])[0])
        return [], "", ""

    def _list(self) -> _Value:
        parts = [self._value(self._mark()) for _ in range(self._take("I")[0])]
        if any(kind and not kind.startswith("Scalar") for _, kind, _ in parts):
            return [dims for dims, _, _ in parts], "TensorList", ""
        return [], "ScalarList", f"[{', '.join(text for _, _, text in parts)}]"

    def _mark(self) -> bytes:
        return self._take_bytes(1)

    def _text(self) -> str:
        return self._take_bytes(self._take("I")[0]).decode()

    def _take(self, codes: str) -> tuple[Any, ...]:
        layout = struct.Struct("=" + codes)
        return layout.unpack(self._take_bytes(layout.size))

    def _take_bytes(self, count: int) -> bytes:
        self._at += count
        return self._bytes[self._at - count : self._at]


_SCALARS = {b"b": "?", b"i": "q", b"f": "d"}
