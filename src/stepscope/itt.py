"""Ranges for Intel's tools, after ``torch.profiler.itt``; they are in every trace, too.

They work with or without torch. Where torch was built with ITT, or else the ``ittapi`` package is
installed, VTune and its like see them as well.
"""

from __future__ import annotations

import functools
import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepscope import _annotations
from stepscope._annotations import RangeStack, Tool, formatted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]

_DOMAIN = "stepscope"
_stack = RangeStack()


def is_available() -> bool:
    """Return True: ranges are recorded whether Intel's tools are there or not."""
    return True


def range_push(msg: str) -> int:
    """Begin a range on this thread; return its zero-based depth."""
    return _stack.push(msg, _tool())


def range_pop() -> int:
    """End this thread's latest range; return its zero-based depth, -1 if there is none."""
    return _stack.pop()


def mark(msg: str) -> None:
    """Record a moment."""
    _annotations.mark(msg, _tool())


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Record a block, or a function as its decorator; arguments are filled in by str.format."""
    range_push(formatted(msg, args, kwargs))
    try:
        yield
    finally:
        range_pop()


def _tool() -> Tool | None:
    torch = sys.modules.get("torch")
    itt = getattr(getattr(torch, "_C", None), "_itt", None)
    if itt is not None and itt.is_available():
        return _torch_tool(itt)
    return _ittapi_tool()


@functools.cache
def _torch_tool(itt: Any) -> Tool:
    return Tool(push=itt.rangePush, pop=itt.rangePop, mark=itt.mark)


@functools.cache
def _ittapi_tool() -> Tool | None:
    try:
        ittapi = importlib.import_module("ittapi")
    except ImportError:
        return None
    domain = ittapi.Domain(_DOMAIN)

    def push(message: str) -> None:
        ittapi.task_begin(domain, ittapi.StringHandle(message))

    def pop() -> None:
        ittapi.task_end(domain)

    def mark_it(message: str) -> None:  # the package knows no marks
        push(message)
        pop()

    return Tool(push, pop, mark_it)
