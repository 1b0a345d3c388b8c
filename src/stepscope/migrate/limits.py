"""What the other profiler does not allow, even if each line has a counterpart.

Paddle has one Profiler at a time: a second one fails as long as the first exists. torch saves a
trace once.
"""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.conversion import Conversion
from stepscope.migrate.edits import REMARK
from stepscope.migrate.instances import ENTERING, Instances
from stepscope.migrate.mapping import PADDLE, PROFILERS, TORCH
from stepscope.migrate.references import Reference

_ONE_AT_A_TIME = "paddle.profiler has one Profiler at a time"
_SAVED_ONCE = "torch saves a trace once, and raises when it was saved before"
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_LOOPS = (cst.For, cst.While, cst.ListComp)


class Creation:
    """A place where the program gets a new profiler, and its name there.

    The place creates one, or calls a function of the program that creates and returns one.
    """

    def __init__(self, conversion: Conversion, reference: Reference, call: Any) -> None:
        parsed = conversion.parsed
        self.reference = reference
        self.call = call
        self.at = parsed.start(call)
        around = list(parsed.ancestors(call))
        statements = (cst.With, cst.SimpleStatementLine)
        self.statement: Any = next((a for a in around if isinstance(a, statements)), None)
        inner = next((i for i, a in enumerate(around) if isinstance(a, _FUNCTIONS)), len(around))
        self.function: Any = around[inner] if inner < len(around) else None
        self.repeats = any(isinstance(a, _LOOPS) for a in around[:inner])
        self.target: Any = _target(around)

    @property
    def name(self) -> str:
        """Return the variable that it is bound to; "" without."""
        return self.target.value if isinstance(self.target, cst.Name) else ""

    @property
    def lasts(self) -> bool:
        """Tell whether it outlives the function that created it."""
        return isinstance(self.target, cst.Attribute) or (bool(self.name) and not self.function)


def _target(around: list[Any]) -> Any:
    for node in around:
        if isinstance(node, cst.WithItem):
            return node.asname.name if node.asname is not None else None
        if isinstance(node, cst.Assign):
            return node.targets[0].target
        if isinstance(node, cst.AnnAssign):
            return node.target
        enters = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        if enters and node.func.attr.value in ENTERING:
            continue
        if not isinstance(node, (cst.IfExp, cst.Arg, cst.NamedExpr)):
            return None
    return None


class Limits:
    """Fixes, or marks, code that the target dialect does not allow."""

    def __init__(
        self, conversion: Conversion, references: list[Reference], instances: Instances
    ) -> None:
        self._conversion = conversion
        self._parsed = conversion.parsed
        self._edits = conversion.edits
        self._instances = instances
        creations = [
            Creation(conversion, reference, call)
            for reference in references
            if reference.name in PROFILERS
            and isinstance(call := conversion.parsed.parent(reference.node), cst.Call)
            and call.func is reference.node
        ]
        self._constructed = creations
        self._creations = [one for one in creations if one.function not in instances]
        for node in self._parsed.nodes:
            origin = instances.returned_by(node.func) if isinstance(node, cst.Call) else None
            if origin is not None and origin.name in PROFILERS:
                self._creations.append(Creation(conversion, origin, node))
        self._creations.sort(key=lambda one: one.at)

    def convert(self) -> None:
        source, target = self._conversion.source, self._conversion.target
        if target is PADDLE and source.vocabulary == "torch":
            for i, creation in enumerate(self._creations):
                self._make_room(creation, self._creations[:i])
        elif target is TORCH and source.vocabulary == "paddle":
            self._mark_second_exports()

    # Paddle allows one Profiler at a time.

    def _make_room(self, creation: Creation, before: list[Creation]) -> None:
        here = [other for other in before if other.function is creation.function and other.name]
        in_the_way = {other.name for other in here if self._is_read_from(other.name, creation)}
        free = dict.fromkeys(other.name for other in here if other.name not in in_the_way)
        if creation.repeats and creation.name:
            free[creation.name] = None
        elsewhere = any(other.lasts for other in before if other.function is not creation.function)
        if in_the_way:
            self._mark(creation, f"{_ONE_AT_A_TIME}: delete {', '.join(sorted(in_the_way))} before")
        elif elsewhere:
            self._mark(creation, f"{_ONE_AT_A_TIME}: the one before must be deleted")
        if free and not self._clear(creation, free):
            self._mark(creation, f"{_ONE_AT_A_TIME}: delete {', '.join(free)} before")
        elif handed_on := [name for name in free if self._is_handed_on(name, creation)]:
            self._mark(creation, f"{_ONE_AT_A_TIME}: nothing else may hold {', '.join(handed_on)}")

    def _is_read_from(self, name: str, creation: Creation) -> bool:
        """Tell whether a variable is used after a profiler is created, without a new binding."""
        end = self._parsed.end(creation.call)
        scope = self._parsed.scope(creation.call)
        later = (
            node
            for node in self._parsed.nodes
            if isinstance(node, cst.Name)
            and node.value == name
            and self._parsed.is_read(node)
            and self._parsed.start(node) >= creation.at
            and (self._parsed.scope(node) is scope)
        )
        if name == creation.name:
            return any(self._parsed.start(node) < end for node in later)
        rebound = [
            other.at for other in self._creations if other.name == name and other.at > creation.at
        ]
        last = min(rebound, default=len(self._parsed.source))
        return any(self._parsed.start(node) < last for node in later)

    def _is_handed_on(self, name: str, creation: Creation) -> bool:
        """Tell whether a variable's object was passed on before, and may be kept there."""
        scope = self._parsed.scope(creation.call)
        return any(
            isinstance(self._parsed.parent(node), (cst.Arg, cst.Assign))
            for node in self._parsed.nodes
            if isinstance(node, cst.Name)
            and node.value == name
            and self._parsed.is_read(node)
            and self._parsed.start(node) < creation.at
            and self._parsed.scope(node) is scope
        )

    def _clear(self, creation: Creation, names: dict[str, None]) -> bool:
        """Insert a line before a statement that drops earlier profilers."""
        parsed = self._parsed
        if creation.statement is None:
            return False
        start = parsed.start(creation.statement)
        line = parsed.source.rfind(b"\n", 0, start) + 1
        indent = parsed.source[line:start].decode()
        if indent.strip():
            return False
        text = f"{' = '.join(names)} = None  {REMARK}{_ONE_AT_A_TIME}"
        self._edits.insert(start, f"{text}{self._edits.newline}{indent}")
        return True

    def _mark(self, creation: Creation, text: str) -> None:
        self._edits.remark(self._parsed.end(creation.call.func), text)

    # torch saves a trace once.

    def _mark_second_exports(self) -> None:
        handled = {
            creation.reference for creation in self._constructed if self._has_handler(creation.call)
        }
        seen: set[tuple[Any, Any]] = set()
        for node in self._parsed.nodes:
            if not isinstance(node, cst.Attribute) or node.attr.value != "export":
                continue
            origin = self._instances.origin(node.value)
            if origin is None:
                continue
            around = (a for a in self._parsed.ancestors(node) if isinstance(a, _FUNCTIONS))
            where = origin, next(around, None)
            in_handler = self._is_parameter(node.value)
            if where in seen or (origin in handled and not in_handler):
                self._edits.remark(self._parsed.end(self._parsed.parent(node)), _SAVED_ONCE)
            seen.add(where)

    def _has_handler(self, call: Any) -> bool:
        given = [
            argument.value
            for argument in call.args
            if argument.keyword is not None and argument.keyword.value == "on_trace_ready"
        ]
        return any(self._parsed.text(value) != "None" for value in given)

    def _is_parameter(self, node: Node) -> bool:
        if not isinstance(node, cst.Name):
            return False
        assignments = self._parsed.assignments(node)
        return any(
            isinstance(getattr(assignment, "node", None), cst.Param) for assignment in assignments
        )
