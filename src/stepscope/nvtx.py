"""Ranges for NVIDIA's tools, with the API of ``torch.cuda.nvtx`` and the ``nvtx`` package.

Traces record them, too, with or without a GPU. Where torch was built with CUDA, or else the
``nvtx`` package is installed, Nsight sees them as well.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.record.push_pop import Ranges, Tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    _F = TypeVar("_F", bound=Callable[..., Any])

__all__ = ["annotate", "mark", "range", "range_pop", "range_push"]


class annotate:  # noqa: N801 - the nvtx package's name
    """A block or a decorated function as a range, with the ``nvtx`` package's arguments.

    The message defaults to the decorated function's name. All other arguments are for NVIDIA's
    tools only.
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
        _ranges.stack.push(self._message or "", self._tool())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """End; an exception propagates."""
        _ranges.stack.pop()

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
            return find_tool()
        looks = self._looks
        domain = {"domain": looks["domain"]} if "domain" in looks else {}
        return Tool(
            push=lambda message: nvtx.push_range(message, **looks),
            pop=lambda: nvtx.pop_range(**domain),
            mark=lambda message: nvtx.mark(message, **looks),
        )


def find_tool() -> Tool | None:
    """Return the NVTX implementation that ranges are forwarded to; None without one."""
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


_ranges = Ranges(find_tool)
range_push = _ranges.range_push
range_pop = _ranges.range_pop
mark = _ranges.mark
range = _ranges.range
