"""Inspects the program's tensors without side effects in the program."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unseen() -> Iterator[None]:
    """Inspect tensors without calling a TorchFunctionMode or adding to a jit.trace.

    Attributes and methods of tensors are functions of torch like any other: the program's modes
    would see them, and a graph that is being traced would get them as nodes.
    """
    torch_c: Any = sys.modules["torch"]._C
    traced = torch_c._get_tracing_state()
    if traced is not None:
        torch_c._set_tracing_state(None)
    try:
        with torch_c.DisableTorchFunction():
            yield
    finally:
        if traced is not None:
            torch_c._set_tracing_state(traced)
