"""What a call in the source is of: ``time.sleep`` of ``time.sleep(0.1)``."""

from __future__ import annotations

import linecache

_MOST_CHARACTERS = 60
_PAIRS = {")": "(", "]": "[", "}": "{"}


def callee_text(file: str, line: int, end_line: int, column: int, end_column: int) -> str:
    """Return ``<native call time.sleep>``; empty where there is no source.

    Columns are bytes of UTF-8, as Python counts them; the place is that of the whole call.
    """
    source = _source(file, line, end_line, column, end_column)
    callee = _callee(source)
    return f"<native call {callee}>" if callee else ""


def _source(file: str, line: int, end_line: int, column: int, end_column: int) -> str:
    if line <= 0 or column < 0 or end_column < 0:
        return ""
    lines = [
        linecache.getline(file, number).rstrip("\n").encode()
        for number in range(line, end_line + 1)
    ]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    return b" ".join(each.strip() for each in lines).decode(errors="replace").strip()


def _callee(call: str) -> str:
    """Return what stands before the arguments of a call, shortened to its last names."""
    if not call.endswith(")"):
        return ""  # a decorator, a class, ``with``: nothing is written as called
    begin = _begin_of_last_group(call)
    if begin is None:
        return ""
    callee = " ".join(call[:begin].split())
    while len(callee) > _MOST_CHARACTERS or "(" in callee or "[" in callee:
        # Of a long expression, the last attribute: ``.item``.
        shorter = callee[1:].rpartition(".")[2]
        if not shorter.isidentifier():
            return ""
        return f".{shorter}"
    return callee


def _begin_of_last_group(text: str) -> int | None:
    """Return where the parenthesis opens that the text ends with; texts in quotes are skipped."""
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
        elif character in "([{":
            open_groups.append(i)
        elif character in _PAIRS:
            if not open_groups:
                return None
            begin = open_groups.pop()
        i += 1
    return begin if not open_groups and not quote else None
