"""Ranges for NVIDIA's tools, after ``torch.cuda.nvtx`` and the ``nvtx`` package.

They are in every trace, with or without a GPU. Where torch was built with CUDA, or else the
``nvtx`` package is installed, Nsight sees them as well.
"""

from __future__ import annotations

import functools
import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope import _annotations
from stepscope._annotations import RangeStack, Tool, formatted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    _F = TypeVar("_F", bound=Callable[..., Any])

__all__ = ["annotate", "mark", "range", "range_pop", "range_push"]

_stack = RangeStack()


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


class annotate:  # noqa: N801 - the name that the nvtx package gave it
    """A block or a decorated function as a range, with the ``nvtx`` package's arguments.

    A decorated function goes by its own name unless a message is given. All but the message is for
    NVIDIA's tools only.
    """

    def __init__(
        self,
        message: str | None = None,
        color: str | int | None = None,
        domain: str | None = None,
        category: str | int | None = None,
        payload: object = None,
    ) -> None:
        """Record nothing yet."""
        self._message = message
        looks: dict[str, Any] = {
            "color": color,
            "domain": domain,
            "category": category,
            "payload": payload,
        }
        self._looks = {name: value for name, value in looks.items() if value is not None}

    def __enter__(self) -> Self:
        """Begin."""
        _stack.push(self._message or "", self._tool())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """End; an exception goes on."""
        _stack.pop()

    def __call__(self, function: _F) -> _F:
        """Decorate a function: each call is a range."""
        message = self._message if self._message is not None else function.__name__

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(message, **self._looks):
                return function(*args, **kwargs)

        return annotated  # type: ignore[return-value]

    def _tool(self) -> Tool | None:
        nvtx = _package() if self._looks else None
        if nvtx is None:
            return _tool()
        looks = self._looks
        domain = {"domain": looks["domain"]} if "domain" in looks else {}
        return Tool(
            push=lambda message: nvtx.push_range(message, **looks),
            pop=lambda: nvtx.pop_range(**domain),
            mark=lambda message: nvtx.mark(message, **looks),
        )


def _tool() -> Tool | None:
    torch = sys.modules.get("torch")
    nvtx = getattr(getattr(torch, "_C", None), "_nvtx", None)
    return _package_tool() if nvtx is None else _torch_tool(nvtx)


@functools.cache
def _torch_tool(nvtx: Any) -> Tool:
    return Tool(push=nvtx.rangePushA, pop=nvtx.rangePop, mark=nvtx.markA)


@functools.cache
def _package() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


@functools.cache
def _package_tool() -> Tool | None:
    nvtx = _package()
    return None if nvtx is None else Tool(nvtx.push_range, nvtx.pop_range, nvtx.mark)
