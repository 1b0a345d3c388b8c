"""A parsed program: its nodes, their places in the text, and the bindings of its names."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst
from libcst import CSTNode as Node
from libcst import metadata

from stepscope.errors import StepscopeError
from stepscope.migrate.edits import Item

_TOO_DEEP = "line 1: the code is nested too deeply to be parsed"
_DEEPEST = 1_000  # levels of nesting; deeper trees exceed Python's recursion limit
_PROVIDERS: Any = (
    metadata.ScopeProvider,
    metadata.ByteSpanPositionProvider,
    metadata.ParentNodeProvider,
    metadata.ExpressionContextProvider,
)


class ProgramError(StepscopeError):
    """A text that is not a Python program."""


class Parsed:
    """A syntax tree whose nodes know their place, their parents and their scopes."""

    def __init__(self, text: str) -> None:
        """A text that Python would not compile is a ProgramError."""
        _check(text)
        try:
            wrapper = metadata.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
            # All together need one walk through the tree.
            resolved: Any = wrapper.resolve_many(_PROVIDERS)
        except cst.ParserSyntaxError as error:
            raise ProgramError(
                f"line {error.raw_line}: libcst does not know this syntax"
            ) from error
        except (RecursionError, KeyError):
            # Without stack, the walk also fails at places that it did not record;
            # that error names whole trees, so it must not be shown.
            raise ProgramError(_TOO_DEEP) from None
        self.module = wrapper.module
        self.source = text.encode()
        if self.module.code != text:
            raise ProgramError("the parsed code does not reproduce the text")
        self._scopes, self._spans, self._parents, self._contexts = (
            resolved[provider] for provider in _PROVIDERS
        )
        self.nodes = list(_walk(self.module))
        self.bound_names = {
            assignment.name
            for scope in set(self._scopes.values())
            if scope is not None
            for assignment in scope.assignments
        }

    def start(self, node: Node) -> int:
        start: int = self._spans[node].start
        return start

    def end(self, node: Node) -> int:
        span = self._spans[node]
        end: int = span.start + span.length
        return end

    def outer(self, node: Any) -> tuple[int, int]:
        """Return the start and end of an expression's text, with parentheses around it."""
        start = self.start(node.lpar[0]) if node.lpar else self.start(node)
        return start, self.end(node.rpar[-1]) if node.rpar else self.end(node)

    def text(self, node: Node) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def item(self, node: Any) -> Item:
        """Return the place of an argument, an element or an imported name, with its comma."""
        comma = isinstance(node.comma, cst.Comma)
        end = self.end(node)
        return Item(self.start(node), end, self.start(node.comma) + 1 if comma else end)

    def items(self, nodes: Sequence[Node]) -> list[Item]:
        return [self.item(node) for node in nodes]

    def parent(self, node: Node) -> Node:
        parent: Node = self._parents[node]
        return parent

    def ancestors(self, node: Node) -> Iterator[Node]:
        """Yield the enclosing nodes, the nearest first."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def is_read(self, node: Node) -> bool:
        """Return whether a node is a name whose value is used."""
        return (
            isinstance(node, cst.Name)
            and self._contexts.get(node) is metadata.ExpressionContext.LOAD
            and self._scopes.get(node) is not None
        )

    def scope(self, node: Node) -> Any:
        """Return the scope that contains a node."""
        for owner in (node, *self.ancestors(node)):
            if self._scopes.get(owner) is not None:
                return self._scopes[owner]
        raise LookupError(node)

    def assignments(self, name: cst.Name) -> list[Any]:
        """Return the possible bindings of a name."""
        return list(self.scope(name)[name.value])

    def is_builtin(self, node: Node, name: str) -> bool:
        """Return whether a node refers to the builtin of that name."""
        return (
            isinstance(node, cst.Name)
            and node.value == name
            and all(isinstance(a, metadata.BuiltinAssignment) for a in self.assignments(node))
        )

    def is_visible(self, scope: Any, node: Node) -> bool:
        """Return whether a name of ``scope`` is visible from a node."""
        at = self.scope(node)
        while at is not scope and at is not at.parent:
            at = at.parent
        return at is scope or isinstance(scope, metadata.GlobalScope)


def dotted(node: Node) -> str:
    """Return ``a.b.c`` for such a node, or ``""``."""
    if isinstance(node, cst.Name):
        return str(node.value)
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def _check(text: str) -> None:
    """Raise a ProgramError with Python's own message if Python rejects a text.

    It runs before libcst, whose errors list every expected token, and which a deeply nested text
    can crash together with the process.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except SyntaxError as error:
        raise ProgramError(f"line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise ProgramError(f"line 1: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ProgramError(_TOO_DEEP) from error
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ProgramError(_TOO_DEEP)


def _walk(node: Node) -> Iterator[Node]:
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.children))
