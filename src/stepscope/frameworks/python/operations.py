"""Classifies the interpreter's instructions, and names native calls by their source code."""

from __future__ import annotations

import dis
import functools
import linecache
import re
from enum import IntEnum

_MAX_CHARACTERS = 60
_MAX_LINES = 100
_PAIRS = {")": "(", "]": "[", "}": "{"}

_CALLS = ("CALL", "PRECALL", "INSTRUMENTED_CALL")
_NO_CALLS = ("CALL_INTRINSIC",)
_ENTERS = ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL")
_NEXTS = ("FOR_ITER", "GET_ITER", "INSTRUMENTED_FOR_ITER")
_OPERATORS = (
    "BINARY_",
    "COMPARE_OP",
    "CONTAINS_OP",
    "DELETE_SUBSCR",
    "DICT_",
    "LIST_EXTEND",
    "LOAD_ATTR",
    "LOAD_METHOD",
    "SET_UPDATE",
    "STORE_ATTR",
    "STORE_SLICE",
    "STORE_SUBSCR",
    "UNARY_",
    "UNPACK_",
)
_IMPORT = "IMPORT_NAME"

Place = tuple[int, int, int, int]
"""The first and the last line, and their columns, in bytes of UTF-8, as Python counts them."""


class Operation(IntEnum):
    """What an instruction may be busy with, as the native sampler numbers it."""

    OTHER = 0
    CALL = 1  # a native function, unless it has called back into Python
    OPERATOR = 2  # a native function, or the interpreter itself, as in a sum of arrays or numbers


@functools.cache
def instruction_names() -> dict[int, str]:
    """Return the names of this Python's instructions by number, specialised ones included."""
    numbers: dict[str, int] = getattr(dis, "_all_opmap", dis.opmap)
    return {number: name for name, number in numbers.items()}


@functools.cache
def operations() -> list[int]:
    return [_operation(instruction_names().get(number, "")) for number in range(256)]


def _operation(name: str) -> Operation:
    if name.startswith(_CALLS) and not name.startswith(_NO_CALLS):
        return Operation.CALL
    if name.startswith((*_ENTERS, *_NEXTS, *_OPERATORS, _IMPORT)):
        return Operation.OPERATOR
    return Operation.OTHER


def native_text(instruction: int, file: str, place: Place) -> str:
    """Return the frame of the native code that an instruction runs: ``<native call time.sleep>``.

    It is empty without source code. ``place`` is that of the whole expression.
    """
    source = _source(file, place)
    name = instruction_names().get(instruction, "")
    if not source:
        return ""
    if name.startswith(_CALLS):
        callee = _callee(source)
    elif name.startswith(_ENTERS):
        callee = _shortened(f"{_entered(source)}.__enter__")
    elif name.startswith(_NEXTS):
        callee = _shortened(f"next({_iterated(source)})")
    else:
        callee = _shortened(source)
    return f"<native call {callee}>" if callee else ""


def _source(file: str, place: Place) -> str:
    line, end_line, column, end_column = place
    if line <= 0 or column < 0 or end_column < 0:
        return ""
    numbers = range(line, min(end_line, line + _MAX_LINES) + 1)
    lines = [linecache.getline(file, number).rstrip("\n").encode() for number in numbers]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    text = b" ".join(line.strip() for line in lines).decode(errors="replace")
    return " ".join(text.split())


def _callee(call: str) -> str:
    """Return the callee of a call; of a long one, the last attribute."""
    if not call.endswith(")"):
        return _shortened(call)  # a decorator: the source shows no call
    begin = _begin_of_last_group(call)
    if begin is None:
        return ""
    callee = call[:begin].strip()
    if callee.replace(".", "_").isidentifier() and len(callee) <= _MAX_CHARACTERS:
        return callee
    last = callee.rpartition(".")[2]  # ``.item`` of ``losses[i](x).item``
    return f".{last}" if last.isidentifier() else _shortened(callee)


# Some releases give the position of the entered or iterated expression, others the statement's.


def _entered(statement: str) -> str:
    return _until(re.sub(r"^(async )?with ", "", statement), (":", ",", " as "))


def _iterated(statement: str) -> str:
    inside = re.search(r"\bfor\b.*?\bin\b (.*)", statement)
    return _until(inside[1], (":", " if ", " for ")) if inside else statement


def _until(text: str, ends: tuple[str, ...]) -> str:
    """Return the text before the first of several ends, or before an unmatched closing bracket."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character in _PAIRS.values()) - (character in _PAIRS)
        if depth < 0 or (depth == 0 and text.startswith(ends, i)):
            return text[:i]
    return text


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def _begin_of_last_group(text: str) -> int | None:
    """Return the position of the parenthesis that the last one closes; quoted text is skipped."""
    open_groups: list[int] = []
    quote = ""
    begin = None
    i = 0
    while i < len(text):
        character = text[i]
        if quote:
            if character == "\\":
                i += 1
            elif text.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
        elif character in "\"'":
            quote = character * 3 if text.startswith(character * 3, i) else character
            i += len(quote) - 1
        elif character in _PAIRS.values():
            open_groups.append(i)
        elif character in _PAIRS:
            if not open_groups:
                return None
            begin = open_groups.pop()
        i += 1
    return begin if not open_groups and not quote else None
