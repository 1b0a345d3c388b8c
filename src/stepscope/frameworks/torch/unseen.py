"""Inspects the program's tensors without anything else in the program noticing."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unseen() -> Iterator[None]:
    """Ask tensors so that no TorchFunctionMode is called and nothing becomes part of a jit.trace.

    Their attributes and methods are functions of torch as any other: a mode of the program's own
    would see them, and a graph that is traced would have them as nodes.
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
