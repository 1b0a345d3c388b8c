"""Values that are written differently in the other vocabulary."""

from __future__ import annotations

import re
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.mapping import SORTED_KEYS
from stepscope.migrate.parsed import Parsed


def string(node: Node) -> str:
    """Return the value of a string literal, or ``""``."""
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else ""
    return value if isinstance(value, str) else ""


def sorted_key(node: Node) -> str | None:
    """Return the member of SortedKeys for a ``sort_by`` value."""
    return SORTED_KEYS.get(string(node))


def pair(parsed: Parsed, node: Node) -> tuple[str, str] | None:
    """Return the two expressions of a scheduler given as a pair, possibly in a variable."""
    if isinstance(node, (cst.Tuple, cst.List)) and len(node.elements) == 2:
        first, second = node.elements
        return parsed.text(first.value), parsed.text(second.value)
    if isinstance(node, cst.Name):
        values = [_assigned(parsed, assignment) for assignment in parsed.assignments(node)]
        if values and all(value is not None and pair(parsed, value) for value in values):
            return f"{node.value}[0]", f"{node.value}[1]"
    return None


def schedule_of(start: str, end: str) -> str:
    """Return the arguments of the ``schedule`` that records steps ``start`` to ``end``."""
    first, last = _integer(start), _integer(end)
    if first is None:
        # Right for every start: one that is not above 0 leaves nothing to wait for.
        wait, warmup = f"max({start} - 1, 0)", f"min(max({start}, 0), 1)"
        active = f"{_operand(end)} - max({start}, 0)"
    elif first <= 0:
        wait, warmup, active = "0", "0", end
    else:
        wait, warmup = str(first - 1), "1"
        active = str(last - first) if last is not None else f"{_operand(end)} - {first}"
    return f"wait={wait}, warmup={warmup}, active={active}, repeat=1"


def _operand(text: str) -> str:
    return text if re.fullmatch(r"[\w.\[\]]+", text) else f"({text})"


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _assigned(parsed: Parsed, assignment: Any) -> Node | None:
    target = getattr(assignment, "node", None)
    if not isinstance(target, cst.Name):
        return None
    statement = parsed.parent(parsed.parent(target))
    if isinstance(statement, cst.Assign) and isinstance(parsed.parent(target), cst.AssignTarget):
        return statement.value
    return None
