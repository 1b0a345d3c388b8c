"""Ranges that are pushed and popped, as in ITT and NVTX, with one stack per thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_RANGE = -1


class _Telling(threading.local):
    now = False


_telling = _Telling()


def tell(function: Callable[..., object], *args: str) -> None:
    """Call a tool's function, so that it is not recorded as the program's own range."""
    _telling.now = True
    try:
        function(*args)
    finally:
        _telling.now = False


@dataclass(frozen=True, slots=True)
class Tool:
    """Another tool that ranges are forwarded to."""

    push: Callable[[str], object]
    pop: Callable[[], object]
    mark: Callable[[str], object]


class RangeStack(threading.local):
    """The open ranges of each thread, recorded and forwarded to a tool."""

    def __init__(self) -> None:
        self._open: list[tuple[record_function, Tool | None]] = []

    def push(self, message: str, tool: Tool | None = None) -> int:
        """Begin a range; return its zero-based depth."""
        recorded = record_function(message)
        if tool is not None:
            tell(tool.push, valid_text(message))
        recorded.__enter__()
        # The tool may change before the end: the one that got the push gets the pop.
        self._open.append((recorded, tool))
        return len(self._open) - 1

    def pop(self) -> int:
        """End the latest range; return its zero-based depth, NO_RANGE if there is none."""
        if not self._open:
            return NO_RANGE
        recorded, tool = self._open.pop()
        recorded.__exit__()
        if tool is not None:
            tell(tool.pop)
        return len(self._open)


def mark(message: str, tool: Tool | None = None) -> None:
    """Record an instant: a range without a length."""
    with record_function(message):
        if tool is not None:
            tell(tool.mark, valid_text(message))


class Ranges:
    """The functions that ITT and NVTX have in common."""

    def __init__(self, find_tool: Callable[[], Tool | None]) -> None:
        """Take a function that finds the tool to forward to; it is called for each range."""
        self.stack = RangeStack()
        self._find_tool = find_tool

    def range_push(self, msg: str) -> int:
        """Begin a range on this thread; return its zero-based depth."""
        return self.stack.push(msg, self._find_tool())

    def range_pop(self) -> int:
        """End this thread's latest range; return its zero-based depth, -1 if there is none."""
        return self.stack.pop()

    def mark(self, msg: str) -> None:
        """Record an instant."""
        mark(msg, self._find_tool())

    @contextmanager
    def range(self, msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Record a block, or a decorated function; arguments are filled in by str.format."""
        self.range_push(_formatted(msg, args, kwargs))
        try:
            yield
        finally:
            self.range_pop()


def is_telling() -> bool:
    """Return whether this thread is in a call that forwards one of our ranges to a tool."""
    return _telling.now


def _formatted(message: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Fill the arguments into the message; one without any may hold braces."""
    return message.format(*args, **kwargs) if args or kwargs else message


def valid_text(text: str) -> str:
    """Replace lone surrogates, which C libraries refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")
