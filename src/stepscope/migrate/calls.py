"""Converts calls of a profiler's functions and methods: the name, the keywords, the values."""

from __future__ import annotations

import re
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.conversion import Conversion
from stepscope.migrate.imports import Imports
from stepscope.migrate.mapping import PROFILERS, SORTED_KEYS, STEPSCOPE, says_nothing
from stepscope.migrate.parsed import Parsed
from stepscope.migrate.references import Reference


class Calls:
    """Converts one dialect's calls into another's."""

    def __init__(self, conversion: Conversion, spelling: Imports) -> None:
        self._conversion = conversion
        self._parsed = conversion.parsed
        self._edits = conversion.edits
        self._way = conversion.way
        self._spelling = spelling

    def convert_arguments_of(self, reference: Reference) -> None:
        """Convert the arguments if the name is called."""
        call: Any = self._parsed.parent(reference.node)
        if not isinstance(call, cst.Call) or call.func is not reference.node or reference.member:
            return
        self.convert_arguments(call, reference.name, reference)
        self._conversion.approximate(reference.node, reference.name)
        is_decorator = isinstance(self._parsed.parent(call), cst.Decorator)
        if is_decorator and reference.dialect is STEPSCOPE and reference.name in PROFILERS:
            self._conversion.missing(call, f"{reference.name} as a decorator")

    def convert_arguments(self, call: Any, function: str, origin: Reference) -> int:
        """Rename keywords, convert values, and remove arguments without a counterpart.

        Returns how many arguments are left.
        """
        removed: set[int] = set()
        order = list(self._way.parameters.get(function, ()))
        for position, argument in enumerate(call.args):
            if argument.star:
                if function in self._way.parameters:
                    self._remark_star(argument)
                continue
            if argument.keyword is not None:
                name = argument.keyword.value
            elif position < len(order):
                name = order[position]
            else:
                continue
            new_name = self._way.parameter(function, name)
            if new_name is not None and self._convert_value(argument, function, name, origin):
                self._rename(argument, new_name, after_gap=bool(removed))
                continue
            removed.add(position)
            text = self._parsed.text(argument.value)
            if new_name is None and not says_nothing(name, text):
                self._remark_removed(argument, function, name)
        self._edits.remove_items(self._parsed.items(call.args), removed)
        return len(call.args) - len(removed)

    def convert_name(self, reference: Reference) -> None:
        """Convert the name where it is used."""
        parsed, node = self._parsed, reference.node
        start, end = parsed.start(node), parsed.end(node)
        if self._edits.is_within(start, end):
            return
        literal = self._way.literals.get(reference.name, {}).get(reference.member)
        if literal is not None:
            self._edits.replace(start, end, literal)
            self._conversion.approximate(node, reference.member)
            return
        if reference.name and reference.name not in self._way.names:
            self._spelling.keep(reference)
            self._conversion.missing(node, reference.name)
            return
        text = self._spelling.spell(reference, self._way.names.get(reference.name, ""))
        if reference.member:
            members = self._way.members.get(reference.name)
            member = members.get(reference.member) if members else reference.member
            if member is None:
                self._member_without_counterpart(reference, text)
                return
            text += f".{member}"
        self._edits.replace(start, end, text)
        if not reference.name and self._way.parameters:
            self._edits.remark(end, "uses of the module through this value are not converted")

    def _member_without_counterpart(self, reference: Reference, text: str) -> None:
        parsed, node = self._parsed, reference.node
        self._conversion.missing(node, f"{reference.name}.{reference.member}")
        element = parsed.parent(node)
        collection: Any = parsed.parent(element)
        if isinstance(element, cst.Element) and len(collection.elements) > 1:
            index = list(collection.elements).index(element)
            self._edits.remove_items(parsed.items(collection.elements), {index})
        else:
            self._edits.replace(parsed.start(node), parsed.end(node), f"{text}.{reference.member}")

    def _convert_value(self, argument: Any, function: str, name: str, origin: Reference) -> bool:
        """Convert a value; return False if nothing of it is left."""
        if not self._way.parameters:
            return True  # the same vocabulary
        value = argument.value
        text = f"{name}={self._parsed.text(value)}"
        match function, name:
            case "table", "sort_by":
                return self._convert_sort_key(argument, text, origin)
            case "Profiler", "scheduler":
                self._convert_pair(value, origin)
            case "summary", "time_unit" if string(value) == "ns":
                self._conversion.missing(argument, text)
                return False
            case "export_chrome_trace", "path" if string(value).endswith(".gz"):
                at = self._parsed.end(argument)
                self._edits.remark(at, f"{self._conversion.target.module} does not compress")
        return True

    def _convert_sort_key(self, argument: Any, text: str, origin: Reference) -> bool:
        value = argument.value
        key = sorted_key(value)
        enum = self._spelling.spell_new(origin, "SortedKeys", value) if key else None
        if enum is None:
            if not says_nothing("sort_by", self._parsed.text(value)):
                self._conversion.missing(argument, text)
            return False
        self._edits.replace(self._parsed.start(value), self._parsed.end(value), f"{enum}.{key}")
        self._conversion.approximate(argument, string(value))
        return True

    def _convert_pair(self, value: Any, origin: Reference) -> None:
        bounds = pair(self._parsed, value)
        schedule = self._spelling.spell_new(origin, "schedule", value) if bounds else None
        if bounds and schedule:
            text = f"{schedule}({schedule_of(*bounds)})"
            self._edits.replace(*self._parsed.outer(value), text)

    def _rename(self, argument: Any, name: str, *, after_gap: bool) -> None:
        if argument.keyword is not None:
            start, end = self._parsed.start(argument.keyword), self._parsed.end(argument.keyword)
            self._edits.replace(start, end, name)
        elif after_gap:
            self._edits.insert(self._parsed.start(argument), f"{name}=")

    def _remark_removed(self, argument: Any, function: str, name: str) -> None:
        if function == "__exit__":
            return
        if (function, name) == ("export", "format"):
            self._conversion.approximate(argument, string(argument.value))
        else:
            self._conversion.missing(argument, name)

    def _remark_star(self, argument: Any) -> None:
        text = self._parsed.text(argument)
        self._edits.remark(self._parsed.end(argument), f"the arguments in {text} are not converted")


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
        # This works for every start: without steps before it, there is no wait.
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
