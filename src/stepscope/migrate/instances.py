"""Finds the expressions of a program that are profilers and ranges.

It follows variables (also across functions of the file that take or return them), attributes of
``self`` and so of other objects, parameters annotated with the class, and the parameter of an
``on_trace_ready``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.mapping import PROFILERS, RANGES
from stepscope.migrate.parsed import Parsed, dotted
from stepscope.migrate.references import Reference

_ENOUGH_ROUNDS = 8  # of passing an object on from one function to the next
_HANDLER = "on_trace_ready"
ENTERING = {"enter_context", "__enter__"}  # they return the object that they enter


class Instances:
    """Finds the use of a class that created an expression's object."""

    def __init__(self, parsed: Parsed, references: Iterable[Reference]) -> None:
        self._parsed = parsed
        self._classes = {
            reference.node: reference
            for reference in references
            if reference.name in PROFILERS | RANGES
        }
        # By a bound name or parameter, by a function that returns the object or, for self.x, by
        # the class and the text.
        self._origins: dict[Any, Reference] = {}
        for _ in range(_ENOUGH_ROUNDS):
            origins_before = len(self._origins)
            for node in parsed.nodes:
                self._learn(node)
            if len(self._origins) == origins_before:
                break

    def __contains__(self, function: Node) -> bool:
        """Tell whether a function of this file returns such an object."""
        return function in self._origins

    def origin(self, node: Node) -> Reference | None:
        """Return the use of the class that created the object, or None for another object."""
        if isinstance(node, cst.Call):
            function = node.func
            if function in self._classes:
                return self._classes[function]
            if not isinstance(function, cst.Attribute) or function.attr.value not in ENTERING:
                return self.returned_by(function)
            return self.origin(node.args[0].value if node.args else function.value)
        if isinstance(node, cst.NamedExpr):
            return self.origin(node.value)
        if isinstance(node, cst.IfExp):
            return self.origin(node.body) or self.origin(node.orelse)
        if isinstance(node, cst.Name):
            return self._of_name(node) if self._parsed.is_read(node) else None
        return self._origins.get(self._attribute(node)) or self._of_any_object(node)

    def _of_any_object(self, node: Node) -> Reference | None:
        """Return the origin of ``x.prof`` if a class of this file has such a ``self.prof``."""
        if not isinstance(node, cst.Attribute):
            return None
        attributes = (f"self.{node.attr.value}", f"cls.{node.attr.value}")
        origins = (
            made
            for key, made in self._origins.items()
            if isinstance(key, tuple) and key[1] in attributes
        )
        return next(origins, None)

    def returned_by(self, function: Node) -> Reference | None:
        """Return the use of the class whose object a function of this file returns."""
        for definition in self._definitions(function):
            if definition in self._origins:
                return self._origins[definition]
        return None

    def _of_name(self, node: Any) -> Reference | None:
        bindings = [
            assignment.node
            for assignment in self._parsed.assignments(node)
            if hasattr(assignment, "node")
        ]
        for binding in self._possible(bindings, node):
            if binding in self._origins:
                return self._origins[binding]
        return None

    def _possible(self, bindings: list[Node], node: Node) -> list[Node]:
        """Leave out bindings that are certainly replaced before the name is used."""
        parsed = self._parsed
        at = parsed.start(node)
        before = sorted((b for b in bindings if parsed.start(b) < at), key=parsed.start)
        for i, binding in reversed(list(enumerate(before))):
            block = self._block(binding)
            if block is not None and block in parsed.ancestors(node):
                same_scope = parsed.scope(node) is parsed.scope(binding)
                return before[i:] if same_scope else bindings
        return bindings

    def _block(self, binding: Node) -> Node | None:
        """Return the block of statements that certainly binds a name."""
        for ancestor in self._parsed.ancestors(binding):
            if isinstance(ancestor, (cst.For, cst.ExceptHandler, cst.ClassDef)):
                return None
            if isinstance(ancestor, (cst.IndentedBlock, cst.Module)):
                return ancestor
        return None

    def _learn(self, node: Node) -> None:
        if isinstance(node, cst.WithItem) and node.asname is not None:
            self._bind(node.asname.name, self.origin(node.item))
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                self._bind(target.target, self.origin(node.value))
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
            self._bind(node.target, self.origin(node.value))
        elif isinstance(node, cst.Param) and node.annotation is not None:
            self._bind(node, self._class_in(node.annotation))
        elif isinstance(node, cst.Call):
            self._learn_from_call(node)
        elif isinstance(node, (cst.Return, cst.Yield)) and node.value is not None:
            around = (a for a in self._parsed.ancestors(node) if isinstance(a, cst.FunctionDef))
            made, function = self.origin(node.value), next(around, None)
            if made is not None and function is not None:
                self._origins.setdefault(function, made)

    def _learn_from_call(self, call: Any) -> None:
        made = self._classes.get(call.func)
        for position, argument in enumerate(call.args):
            keyword = argument.keyword.value if argument.keyword else ""
            if made is not None and keyword == _HANDLER:
                for parameters in self._parameters(argument.value):
                    self._bind(parameters[0], made)
            origin = self.origin(argument.value) if made is None and not argument.star else None
            if origin is None:
                continue
            for parameters in self._parameters(call.func):
                names = [parameter.name.value for parameter in parameters]
                index = names.index(keyword) if keyword in names else position
                if index < len(parameters) and (keyword in names or not keyword):
                    self._bind(parameters[index], origin)

    def _bind(self, target: Any, origin: Reference | None) -> None:
        if origin is None:
            return
        key = target if isinstance(target, (cst.Name, cst.Param)) else self._attribute(target)
        if key is not None:
            self._origins.setdefault(key, origin)

    def _attribute(self, node: Node) -> tuple[Node, str] | None:
        """Return the class and the text of ``self.x``."""
        text = dotted(node)
        if not text.startswith(("self.", "cls.")):
            return None
        classes = (a for a in self._parsed.ancestors(node) if isinstance(a, cst.ClassDef))
        owner = next(classes, None)
        return (owner, text) if owner is not None else None

    def _class_in(self, annotation: Node) -> Reference | None:
        todo = [annotation]
        while todo:
            node = todo.pop()
            if node in self._classes:
                return self._classes[node]
            todo.extend(node.children)
        return None

    def _parameters(self, function: Node) -> Iterator[list[Any]]:
        """Yield the parameters that a call of a function of this file fills, in order."""
        is_method = isinstance(function, cst.Attribute)
        for definition in self._definitions(function):
            if isinstance(definition, cst.ClassDef):
                made_by, skipped = _methods_of(definition, "__init__"), 1
            else:
                made_by, skipped = [definition], int(is_method)
            for candidate in made_by:
                if isinstance(candidate, (cst.FunctionDef, cst.Lambda)):
                    parameters = [*candidate.params.posonly_params, *candidate.params.params][
                        skipped:
                    ]
                    if parameters:
                        yield parameters

    def _definitions(self, function: Node) -> list[Any]:
        """Return the definitions in this file that the expression may call."""
        if isinstance(function, cst.Lambda):
            return [function]
        if isinstance(function, cst.Name):
            assignments = self._parsed.assignments(function)
            return [getattr(assignment, "node", None) for assignment in assignments]
        return self._methods(function)

    def _methods(self, function: Node) -> list[Any]:
        key = self._attribute(function)
        if key is None or key[1].count(".") != 1:
            return []
        return _methods_of(key[0], key[1].partition(".")[2])


def _methods_of(owner: Any, name: str) -> list[Any]:
    return [
        statement
        for statement in owner.body.body
        if isinstance(statement, cst.FunctionDef) and statement.name.value == name
    ]
