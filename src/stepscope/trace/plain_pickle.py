"""An unpickler for plain values, which creates and calls nothing else.

Python's own unpickler can be kept from importing, but not from allocating any amount of memory, or
from hashing values that refer to each other forever.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any

_MARK = object()
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_VALUES = frozenset(
    (
        *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
_PUT = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GET = frozenset({"GET", "BINGET", "LONG_BINGET"})
_LAST_ITEMS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}
_SINCE_MARK = frozenset({"TUPLE", "LIST", "DICT", "APPENDS", "SETITEMS"})
_NOTHING = frozenset({"PROTO", "FRAME"})
_KEYS = (str, int, float, bytes)  # types with a fast hash


class PlainPickleError(ValueError):
    """The bytes are no pickle, or one of other values than lists, dicts, numbers and texts."""


def plain_unpickled(data: bytes) -> Any:
    """Return the value of a pickle; it may contain the same list several times."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return machine.popped()
            machine.do(opcode.name, argument)
    except PlainPickleError:
        raise
    except Exception as error:  # a damaged pickle may raise any error
        raise PlainPickleError(f"it is damaged: {error}") from None
    raise PlainPickleError("it ends early")


class _Machine:
    """The stack and the memo that a pickle's instructions work on."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _GET:
            stack.append(self._memo[int(argument)])
        elif name in _PUT:
            self._memo[int(argument)] = self._top()
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "POP":
            stack.pop()
        elif name == "DUP":
            stack.append(self._top())
        elif name not in _NOTHING:
            self._do_container(name, argument)

    def _do_container(self, name: str, argument: Any) -> None:
        count = _LAST_ITEMS.get(name)
        if count is None and name not in _SINCE_MARK:
            raise PlainPickleError(
                f"it has the opcode {name} ({argument}), which numbers, texts and lists do not need"
            )
        items = self._since_mark() if count is None else [self.popped() for _ in range(count)][::-1]
        match name:
            case "APPEND" | "APPENDS":
                self._top_as(list).extend(items)
            case "SETITEM" | "SETITEMS":
                self._top_as(dict).update(_pairs(items))
            case "DICT":
                self._stack.append(_pairs(items))
            case "LIST":
                self._stack.append(items)
            case _:
                self._stack.append(tuple(items))

    def popped(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise PlainPickleError("it has no value where one is needed")
        return value

    def _top(self) -> Any:
        if self._stack[-1] is _MARK:
            raise PlainPickleError("it has no value where one is needed")
        return self._stack[-1]

    def _top_as(self, kind: type) -> Any:
        value = self._top()
        if type(value) is not kind:
            raise PlainPickleError(f"it adds to {type(value).__name__}, not {kind.__name__}")
        return value

    def _since_mark(self) -> list[Any]:
        items = []
        while (value := self._stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if len(items) % 2 or not all(isinstance(key, _KEYS) for key in keys):
        raise PlainPickleError("a dict has keys that are neither texts nor numbers")
    return dict(zip(keys, items[1::2], strict=True))
