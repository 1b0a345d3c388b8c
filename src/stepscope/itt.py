"""Ranges for Intel's tools, with the API of ``torch.profiler.itt``; traces record them, too.

They work with or without torch. Where torch was built with ITT, or else the ``ittapi`` package is
installed, VTune and similar tools see them as well.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from stepscope.record.push_pop import Ranges, Tool

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]

_DOMAIN = "stepscope"


def is_available() -> bool:
    """Return True: ranges are recorded with or without Intel's tools."""
    return True


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

    def mark_it(message: str) -> None:  # the package has no marks
        push(message)
        pop()

    return Tool(push, pop, mark_it)


_ranges = Ranges(_tool)
range_push = _ranges.range_push
range_pop = _ranges.range_pop
mark = _ranges.mark
range = _ranges.range
